//! The calls that a call is made for: a tool that calls another tool is the parent of that call.

use std::sync::Arc;

/// How many calls may be made inside one another.
pub const MOST_NESTED: usize = 3;

/// A call that another call is made for, with the calls that it is made for itself.
#[derive(Clone, Debug)]
pub struct Parent {
    /// The gateway's number of the call.
    pub call: u64,
    pub upstream: Arc<str>,
    /// The upstream's own name of the tool.
    pub tool: String,
    pub parent: Option<Arc<Self>>,
}

impl Parent {
    /// Why a call of this tool must not be made for this parent, if it must not.
    pub fn refusal(&self, upstream: &str, tool: &str) -> Option<String> {
        let mut above = Some(self);
        let mut depth = 0;
        while let Some(parent) = above {
            depth += 1;
            if *parent.upstream == *upstream && parent.tool == tool {
                return Some(format!(
                    "the tool `{tool}` of `{upstream}` is running already and must not call itself"
                ));
            }
            above = parent.parent.as_deref();
        }
        (depth > MOST_NESTED)
            .then(|| format!("tools may call other tools {MOST_NESTED} levels deep, and no deeper"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_bounded_and_no_tool_calls_itself() {
        let mut parent: Option<Arc<Parent>> = None;
        for (number, tool) in (1..).zip(["a", "b", "c", "d"]) {
            let refusal = parent.as_ref().and_then(|parent| parent.refusal("pack", tool));
            assert_eq!(refusal, None, "{tool}");
            let upstream = "pack".into();
            parent = Some(Arc::new(Parent { call: number, upstream, tool: tool.into(), parent }));
        }
        let parent = parent.unwrap();
        assert!(parent.refusal("pack", "e").unwrap().contains("3 levels"));
        for tool in ["a", "d"] {
            assert!(parent.refusal("pack", tool).unwrap().contains("must not call itself"), "{tool}");
        }
        let shallow = parent.parent.as_ref().unwrap();
        assert_eq!(shallow.refusal("other", "a"), None);
    }
}
