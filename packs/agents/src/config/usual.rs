//! What is known of a type of agent by its name, unless the config sets something else.

use super::{Config, Program, Tier, TypeConfig};

struct Usual {
    tier: Tier,
    may_spawn: bool,
    /// As Claude Code names it; nothing for the one that the program chooses.
    model: Option<&'static str>,
    /// Empty for all.
    tools: &'static [&'static str],
}

const SEARCH: &[&str] =
    &["Read", "Grep", "Glob", "Bash", "semantic_search", "ast_grep_search", "lsp_workspace_symbols"];
const WRITE: &[&str] = &["Read", "Write", "Edit", "Grep", "Glob", "Bash"];
const WEB: &[&str] = &["Read", "Grep", "Glob", "Bash", "WebSearch", "WebFetch"];
const PLAN: &[&str] = &["Read", "Grep", "Glob", "Bash"];
const LOOK: &[&str] = &["Read", "invoke_gemini"];
const ALL: &[&str] = &[];

/// The types with well-known names.
fn known(name: &str) -> Option<Usual> {
    let (tier, may_spawn, model, tools) = match name {
        "explore" | "comment_checker" | "code-reviewer" | "momus" => (Tier::Cheap, false, None, SEARCH),
        "dewey" => (Tier::Cheap, false, None, WEB),
        "document_writer" => (Tier::Cheap, false, None, WRITE),
        "multimodal" => (Tier::Cheap, false, None, LOOK),
        "research-lead" => (Tier::Cheap, true, None, ALL),
        "frontend" => (Tier::Medium, false, None, WRITE),
        "debugger" => (Tier::Medium, false, Some("sonnet"), WRITE),
        "implementation-lead" => (Tier::Medium, true, Some("sonnet"), ALL),
        "delphi" => (Tier::Expensive, false, None, SEARCH),
        "planner" => (Tier::Expensive, false, Some("opus"), PLAN),
        "stravinsky" => (Tier::Expensive, true, None, ALL),
        _ => return None,
    };
    Some(Usual { tier, may_spawn, model, tools })
}

/// The defaults of a type: those of a well-known name, or of any other.
fn usual(name: &str) -> Usual {
    known(name).unwrap_or(Usual { tier: Tier::Expensive, may_spawn: false, model: None, tools: SEARCH })
}

impl Config {
    pub(crate) fn tier(&self, name: &str) -> Tier {
        self.types.get(name).and_then(|of| of.tier).unwrap_or(usual(name).tier)
    }

    pub(crate) fn may_spawn(&self, name: &str) -> bool {
        self.types.get(name).and_then(|of| of.may_spawn).unwrap_or(usual(name).may_spawn)
    }

    /// Those of these tools that an agent of this type does not have.
    pub(crate) fn lacks(&self, name: &str, required: &[String]) -> Vec<String> {
        let tools = self.complete(name).and_then(|of| of.tools);
        let has = |tool: &String| match &tools {
            Some(tools) => tools.contains(tool),
            None => known(name).is_some() || SEARCH.contains(&tool.as_str()),
        };
        required.iter().filter(|tool| !has(tool)).cloned().collect()
    }

    /// The type with the defaults of its well-known name where the config leaves it open. A type with another name is
    /// as it is configured: its program has all its tools.
    pub(crate) fn complete(&self, name: &str) -> Option<TypeConfig> {
        let mut of = self.types.get(name)?.clone();
        let Some(usual) = known(name) else { return Some(of) };
        if of.program == Program::Claude && of.model.is_none() {
            of.model = usual.model.map(str::to_owned);
        }
        // That a type writes is more specific than its name.
        let names = if of.write && !usual.tools.contains(&"Write") { ALL } else { usual.tools };
        if of.tools.is_none() && !names.is_empty() {
            of.tools = Some(names.iter().map(|tool| (*tool).to_owned()).collect());
        }
        Some(of)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(types: &Value) -> Config {
        serde_json::from_value(json!({ "types": types, "projects": [] })).unwrap()
    }

    #[test]
    fn the_well_known_types_are_those_of_the_system_that_the_pack_replaces() {
        use Tier::{Cheap, Expensive, Medium};
        let types = [
            ("explore", Cheap, false, None),
            ("dewey", Cheap, false, None),
            ("document_writer", Cheap, false, None),
            ("multimodal", Cheap, false, None),
            ("frontend", Medium, false, None),
            ("delphi", Expensive, false, None),
            ("research-lead", Cheap, true, None),
            ("implementation-lead", Medium, true, Some("sonnet")),
            ("momus", Cheap, false, None),
            ("comment_checker", Cheap, false, None),
            ("debugger", Medium, false, Some("sonnet")),
            ("code-reviewer", Cheap, false, None),
            ("planner", Expensive, false, Some("opus")),
            ("stravinsky", Expensive, true, None),
        ];
        for (name, tier, may_spawn, model) in types {
            let config = config(&json!({ name: { "program": "claude" } }));
            assert_eq!((config.tier(name), config.may_spawn(name)), (tier, may_spawn), "{name}");
            let of = config.complete(name).unwrap();
            assert_eq!(of.model.as_deref(), model, "{name}");
        }
        let search = "Read,Grep,Glob,Bash,semantic_search,ast_grep_search,lsp_workspace_symbols";
        for (name, tools) in [
            ("explore", Some(search)),
            ("multimodal", Some("Read,invoke_gemini")),
            ("planner", Some("Read,Grep,Glob,Bash")),
            ("stravinsky", None),
        ] {
            let of = config(&json!({ name: { "program": "claude" } })).complete(name).unwrap();
            assert_eq!(of.tools.map(|tools| tools.join(",")).as_deref(), tools, "{name}");
        }
    }

    #[test]
    fn what_the_config_sets_for_a_type_comes_before_its_name() {
        let config = config(&json!({
            "planner": { "program": "claude", "model": "haiku", "tools": ["Read"], "tier": "cheap", "may_spawn": true },
            "explore": { "program": "claude", "write": true },
            "debugger": { "program": "codex", "write": true },
            "mine": { "program": "claude" },
        }));
        let of = |name: &str| config.complete(name).unwrap();
        assert_eq!(
            (of("planner").model.as_deref(), of("planner").tools),
            (Some("haiku"), Some(vec!["Read".into()]))
        );
        assert_eq!((config.tier("planner"), config.may_spawn("planner")), (Tier::Cheap, true));
        assert_eq!(of("explore").tools, None, "one that writes keeps the tools for it");
        let required = ["Edit".to_owned()];
        assert!(config.lacks("explore", &required).is_empty());
        assert_eq!(config.lacks("planner", &required), required);
        assert_eq!(of("debugger").model, None, "the name is one of another program");
        assert_eq!((of("mine").model, of("mine").tools), (None, None));
        assert!(config.complete("ghost").is_none());
    }
}
