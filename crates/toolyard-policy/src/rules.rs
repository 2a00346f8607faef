//! Rules about who may call which tool, get which prompt and read which resource, with which arguments. The first rule
//! that matches decides. Rules are compiled in two steps: once per class of principals (those that the same rules can
//! concern), and once per class and target, so that a call costs two lookups and only the conditions on its arguments.

mod args;
mod condition;
mod loops;
mod policy;
#[cfg(test)]
mod tests;

pub use args::Test;
pub use condition::Condition;
pub use policy::{Decision, Policy, PrincipalClass, Verdict};

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Do {
    Allow,
    Approve,
    Deny,
    /// The same, and the tool seems not to exist.
    Hide,
}

impl Do {
    pub const ALL: [(&'static str, Self); 4] =
        [("allow", Self::Allow), ("approve", Self::Approve), ("deny", Self::Deny), ("hide", Self::Hide)];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, action)| *action == self).map_or("", |(name, _)| name)
    }

    /// Whether a call can go on.
    pub fn is_permissive(self) -> bool {
        matches!(self, Self::Allow | Self::Approve)
    }
}

impl fmt::Display for Do {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One rule. Every part that is given must match.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Patterns over names of principals, `role:NAME` or `class:NAME`; all principals if empty. A name of a principal
    /// includes its agents.
    pub who: Vec<String>,
    /// Patterns over canonical ids of what it is about.
    pub names: Names,
    pub annotations: Annotations,
    /// JSON pointers into the arguments, and what must hold there.
    pub args: Vec<(String, Test)>,
    pub when: Option<Condition>,
    pub action: Do,
    pub approval: Approval,
    /// The file and line of the rule, for explanations.
    pub place: String,
}

/// Patterns over canonical ids, by kind. Without any, everything of every kind matches; with some, only what they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub tools: Vec<String>,
    pub prompts: Vec<String>,
    /// Over `server:URI`.
    pub resources: Vec<String>,
}

impl Names {
    fn of(&self, kind: Kind) -> &[String] {
        match kind {
            Kind::Tool => &self.tools,
            Kind::Prompt => &self.prompts,
            Kind::Resource => &self.resources,
        }
    }

    fn has(&self, target: &Target<'_>) -> bool {
        let is_open = self.tools.is_empty() && self.prompts.is_empty() && self.resources.is_empty();
        is_open || self.of(target.kind).iter().any(|pattern| glob(pattern, target.canonical))
    }
}

/// Who approves, and how long the approval is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Approval {
    pub by: By,
    /// Whether one approval holds for all equal calls until it expires, rather than for one.
    pub is_for_session: bool,
    pub expires: Duration,
    /// How long a call waits for an operator before it returns.
    pub wait: Duration,
}

impl Approval {
    /// How long an approval for the session is valid, if there can be one.
    pub fn session(self) -> Option<Duration> {
        self.is_for_session.then_some(self.expires)
    }
}

impl Default for Approval {
    fn default() -> Self {
        Self {
            by: By::Client,
            is_for_session: false,
            expires: Duration::from_mins(10),
            wait: Duration::from_secs(45),
        }
    }
}

/// Who approves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// The client that made it asks its user.
    Client,
    /// An operator of the gateway.
    Operator,
}

/// The annotations that a rule requires, or that a tool has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Annotations {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

impl Annotations {
    /// The annotations of a definition, with the protocol's defaults where it has none.
    pub fn of(definition: &Value) -> Self {
        let hint = |name: &str, default| Some(definition["annotations"][name].as_bool().unwrap_or(default));
        Self {
            read_only: hint("readOnlyHint", false),
            destructive: hint("destructiveHint", true),
            idempotent: hint("idempotentHint", false),
            open_world: hint("openWorldHint", true),
        }
    }

    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Whether everything that this requires is so.
    fn fits(self, tool: Self) -> bool {
        let fits = |wanted: Option<bool>, is: Option<bool>| wanted.is_none() || wanted == is;
        fits(self.read_only, tool.read_only)
            && fits(self.destructive, tool.destructive)
            && fits(self.idempotent, tool.idempotent)
            && fits(self.open_world, tool.open_world)
    }
}

/// A principal, as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a, R> {
    pub name: &'a str,
    /// The names of the principals on whose behalf it acts, the outermost first. Empty unless it is an agent.
    pub parents: &'a [R],
    pub roles: &'a [R],
    pub class: &'a str,
}

impl<'a, R: AsRef<str>> Who<'a, R> {
    /// The name of the principal that is responsible for it.
    fn user(&self) -> &'a str {
        self.parents.first().map_or(self.name, AsRef::as_ref)
    }
}

/// The kind of a request's subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Tool,
    Prompt,
    Resource,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }
}

/// A tool, prompt or resource, as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    pub kind: Kind,
    /// `server:name`, or `server:URI` for a resource.
    pub canonical: &'a str,
    /// Only tools have any.
    pub annotations: Annotations,
    /// Whether its server's annotations are believed where they permit something.
    pub is_trusted: bool,
}

impl Rule {
    /// Whether it concerns this principal.
    fn concerns<R: AsRef<str>>(&self, who: &Who<'_, R>) -> bool {
        let is_it = |pattern: &String| {
            if let Some(role) = pattern.strip_prefix("role:") {
                who.roles.iter().any(|own| glob(role, own.as_ref()))
            } else if let Some(class) = pattern.strip_prefix("class:") {
                glob(class, who.class)
            } else {
                glob(pattern, who.name) || who.parents.iter().any(|parent| glob(pattern, parent.as_ref()))
            }
        };
        self.who.is_empty() || self.who.iter().any(is_it)
    }

    /// Whether it is about this target, whatever its arguments are. A rule with annotations is about tools alone.
    fn is_about(&self, target: &Target<'_>) -> bool {
        let fits = match target.kind {
            Kind::Tool => self.annotations.fits(target.annotations),
            Kind::Prompt | Kind::Resource => self.annotations.is_empty(),
        };
        fits && self.names.has(target)
    }

    /// Whether the arguments decide if it matches.
    fn is_conditional(&self) -> bool {
        !self.args.is_empty() || self.when.is_some()
    }

    /// Whether the rule may only make the decision stricter, because it uses annotations of an untrusted server.
    fn only_tightens(&self, target: &Target<'_>) -> bool {
        !self.annotations.is_empty() && !target.is_trusted
    }
}

/// Whether a URI has a segment `.` or `..`, plain or encoded. A server may resolve it to another resource than the one
/// that a pattern was written for, so patterns cannot judge it.
pub fn has_dot_segments(uri: &str) -> bool {
    let decoded = percent_decoded(uri);
    let is_separator = |byte: &u8| matches!(byte, b'/' | b'\\' | b'?' | b'#' | b'&' | b'=' | b':' | b';');
    let mut segments = decoded.split(is_separator);
    segments.any(|segment| matches!(segment, b"." | b".."))
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let encoded = (bytes[at] == b'%').then(|| digit(at + 1).zip(digit(at + 2))).flatten();
        let value = encoded.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        out.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 3 } else { 1 };
    }
    out
}

/// Whether a pattern, in which `*` matches any run of characters, matches a text.
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let head = parts.next().unwrap_or_default();
    let Some(mut left) = text.strip_prefix(head) else { return false };
    let rest: Vec<&str> = parts.collect();
    let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
    for part in middle {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}
