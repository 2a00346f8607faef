//! The moments at which hooks run.

use std::fmt;

/// A moment at which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    PreToolCall,
    PostToolCall,
    PreModelInvoke,
    PostModelInvoke,
    SessionStart,
    SessionIdle,
    PreCompact,
    Notification,
    SubagentStop,
}

impl Point {
    pub const ALL: [(&'static str, Self); 9] = [
        ("pre_tool_call", Self::PreToolCall),
        ("post_tool_call", Self::PostToolCall),
        ("pre_model_invoke", Self::PreModelInvoke),
        ("post_model_invoke", Self::PostModelInvoke),
        ("session_start", Self::SessionStart),
        ("session_idle", Self::SessionIdle),
        ("pre_compact", Self::PreCompact),
        ("notification", Self::Notification),
        ("subagent_stop", Self::SubagentStop),
    ];

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(own, _)| *own == name).map(|(_, point)| *point)
    }

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, point)| *point == self).map_or("", |(name, _)| name)
    }

    /// Whether a hook at this point may change a member of the event. What names the call is not theirs to change.
    pub(crate) fn may_change(self, member: &str) -> bool {
        match self {
            Self::PreToolCall => member == "arguments",
            Self::PostToolCall => member == "result",
            _ => !matches!(member, "point" | "tool" | "principal" | "client"),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
