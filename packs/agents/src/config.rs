//! The keys of `[packs.agents]`, and what is set for well-known types of agents.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which agents can be run, and where.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The types of agents, each under a name: `[packs.agents.types.NAME]`.
    #[schemars(extend("minProperties" = 1))]
    pub(crate) types: BTreeMap<String, TypeConfig>,
    /// Folders in which agents may work.
    #[schemars(transform = toolyard_tool::path)]
    pub(crate) projects: Vec<PathBuf>,
    /// Agents that may run at the same time.
    #[serde(default = "concurrent")]
    #[schemars(range(min = 1, max = 64))]
    pub(crate) concurrent: usize,
    /// How deep agents may be nested: with 1, agents cannot start agents.
    #[serde(default = "depth")]
    #[schemars(range(min = 1, max = 8))]
    pub(crate) depth: usize,
    /// How many agents one agent may start, with those that its agents start.
    #[serde(default = "tree_runs")]
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) tree_runs: usize,
    /// How much money the agents that an agent has started may spend before it can start no more, in USD, as the programs report it.
    pub(crate) tree_cost: Option<f64>,
}

/// One type of agent.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "if" = { "properties": { "program": { "enum": ["command", "acp"] } } },
    "then" = { "required": ["command"] }
))]
pub(crate) struct TypeConfig {
    /// What runs: `claude`, `codex`, `gemini`, `opencode`, any `command` that reads its prompt from stdin, or any `acp` command that speaks the Agent Client Protocol.
    pub(crate) program: Program,
    /// The command with its arguments; the usual one of the program if it is left out.
    #[serde(default)]
    pub(crate) command: Vec<String>,
    /// The model to use if a call names none.
    pub(crate) model: Option<String>,
    /// Instructions that come before each prompt.
    pub(crate) instructions: Option<String>,
    /// Variables of the gateway's environment that the agent gets, besides `PATH` and `HOME`.
    #[serde(default)]
    pub(crate) inherit: Vec<String>,
    /// Variables that are set for the agent.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Whether the agent may change files. It then works in a git worktree of its own.
    #[serde(default)]
    pub(crate) write: bool,
    /// The profile of this gateway whose tools the agent gets.
    pub(crate) profile: Option<String>,
    /// `cheap`, `medium` or `expensive`.
    pub(crate) tier: Option<Tier>,
    /// Tools that another agent may require of this one.
    pub(crate) tools: Option<Vec<String>>,
    /// Whether it may spawn other agents.
    pub(crate) may_spawn: Option<bool>,
}

/// What runs an agent.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Program {
    Claude,
    Codex,
    Gemini,
    OpenCode,
    Command,
    Acp,
}

/// What an agent costs.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tier {
    Cheap,
    Medium,
    Expensive,
}

fn concurrent() -> usize {
    4
}

fn depth() -> usize {
    2
}

fn tree_runs() -> usize {
    20
}

/// What is known of a type by its name, unless the config sets something else.
struct Usual {
    tier: Tier,
    may_spawn: bool,
    /// Empty for all.
    tools: &'static [&'static str],
}

fn usual(name: &str) -> Usual {
    let search =
        &["Read", "Grep", "Glob", "Bash", "semantic_search", "ast_grep_search", "lsp_workspace_symbols"][..];
    let write = &["Read", "Write", "Edit", "Grep", "Glob", "Bash"][..];
    let (tier, may_spawn, tools) = match name {
        "explore" | "comment_checker" | "code-reviewer" | "momus" => (Tier::Cheap, false, search),
        "dewey" => (Tier::Cheap, false, &["Read", "Grep", "Glob", "Bash", "WebSearch", "WebFetch"][..]),
        "document_writer" | "frontend" | "debugger" => {
            (if name == "document_writer" { Tier::Cheap } else { Tier::Medium }, false, write)
        }
        "multimodal" => (Tier::Cheap, false, &["Read", "invoke_gemini"][..]),
        "research-lead" => (Tier::Cheap, true, &[][..]),
        "implementation-lead" => (Tier::Medium, true, &[][..]),
        "planner" => (Tier::Expensive, false, &["Read", "Grep", "Glob", "Bash"][..]),
        "stravinsky" => (Tier::Expensive, true, &[][..]),
        _ => (Tier::Expensive, false, search),
    };
    Usual { tier, may_spawn, tools }
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
        let configured = self.types.get(name).and_then(|of| of.tools.as_ref());
        let has = |tool: &String| match configured {
            Some(tools) => tools.contains(tool),
            None => usual(name).tools.is_empty() || usual(name).tools.contains(&tool.as_str()),
        };
        required.iter().filter(|tool| !has(tool)).cloned().collect()
    }
}
