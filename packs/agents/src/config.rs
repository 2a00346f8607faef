//! The keys of `[packs.agents]`, and what is set for well-known types of agents.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::Wrong;

mod usual;

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
    /// How much money the agents that an agent has started may spend before it can start no more, in USD, as the programs report it, or by the prices of their types. It can start no more either once the cost of one is unknown.
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
    /// The model to use if a call names none. For Claude Code the types `implementation-lead` and `debugger` have `sonnet` and `planner` has `opus`; all others have the model of the program.
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
    /// Tools that another agent may require of this one; those of the type if it has a well-known name. Claude Code gets no other tools of its own.
    pub(crate) tools: Option<Vec<String>>,
    /// Whether it may spawn other agents.
    pub(crate) may_spawn: Option<bool>,
    /// The price of a million tokens that are sent, in USD, for programs that report tokens and no cost.
    pub(crate) price_in: Option<f64>,
    /// The price of a million tokens that are sent and were cached by the provider.
    pub(crate) price_cached: Option<f64>,
    /// The price of a million tokens that are received.
    pub(crate) price_out: Option<f64>,
}

/// The placeholder of the model in a command.
pub(crate) const MODEL: &str = "{model}";

impl TypeConfig {
    /// Whether the command has a place for the model.
    pub(crate) fn places_model(&self) -> bool {
        self.command.iter().any(|word| word.contains(MODEL))
    }

    /// The cost of these tokens, if the prices are known.
    pub(crate) fn price_of(&self, tokens: Tokens) -> Option<f64> {
        let (price_in, price_out) = (self.price_in?, self.price_out?);
        let cached = tokens.cached.min(tokens.input);
        let cost = (tokens.input - cached) * price_in
            + cached * self.price_cached.unwrap_or(price_in)
            + tokens.output * price_out;
        Some(cost / 1_000_000.0)
    }
}

/// Tokens that a program has used, as it reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tokens {
    /// With those that were cached.
    pub(crate) input: f64,
    pub(crate) cached: f64,
    pub(crate) output: f64,
}

impl std::ops::AddAssign for Tokens {
    fn add_assign(&mut self, more: Self) {
        self.input += more.input;
        self.cached += more.cached;
        self.output += more.output;
    }
}

/// Settings that cannot work together.
pub(crate) fn wrongs(config: &Value) -> Vec<Wrong> {
    let Ok(config) = Config::deserialize(config) else { return Vec::new() };
    let mut wrongs = Vec::new();
    let mut add = |name: &str, key: &str, what: String| {
        wrongs.push(Wrong { key: format!("types.{name}.{key}"), what });
    };
    for (name, of) in &config.types {
        if of.program == Program::Command && of.model.is_some() && !of.places_model() {
            let what = format!("has no effect: write `{MODEL}` in `command` where the model belongs");
            add(name, "model", what);
        }
        let reports_no_cost = !matches!(of.program, Program::Claude | Program::Command);
        if config.tree_cost.is_some() && reports_no_cost && of.price_of(Tokens::default()).is_none() {
            let what =
                "is needed with `price_out`: this program reports no cost, so `tree_cost` could not limit it";
            add(name, "price_in", what.to_owned());
        }
    }
    wrongs
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
