//! The keys of `[packs.models]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::Secret;

/// Which models can be asked, and within which bounds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The services that answer, each under a name of your choice: `[packs.models.providers.NAME]`.
    #[schemars(extend("minProperties" = 1))]
    pub(crate) providers: BTreeMap<String, ProviderConfig>,
    /// The model that `ask_model` uses if a call names none.
    pub(crate) default_model: Option<String>,
    /// The model that answers for the agents in `fallback_agents` if theirs does not.
    pub(crate) fallback: Option<String>,
    /// The types of agents that have a fallback.
    #[serde(default = "fallback_agents")]
    pub(crate) fallback_agents: Vec<String>,
    /// Requests to all models together in any minute; 0 for no limit.
    #[serde(default = "per_minute")]
    pub(crate) per_minute: usize,
    /// Limits of the gateway (`[limits.NAME]`) that requests to models pass, too, in turn with calls of tools.
    #[serde(default)]
    pub(crate) limits: Vec<String>,
    /// Seconds without a byte from a provider after which a request has failed.
    #[serde(default = "timeout")]
    #[schemars(range(min = 1, max = 3600))]
    pub(crate) timeout: u64,
    /// The tools that a model with tools gets if a call names none, as patterns.
    #[serde(default = "tools")]
    pub(crate) tools: Vec<String>,
    /// Tools that a model may call without a question although they may destroy something, as patterns.
    #[serde(default)]
    pub(crate) approved_tools: Vec<String>,
    /// What one call with tools may cost, in the currency of your prices. Needs prices for its model.
    pub(crate) max_cost: Option<f64>,
    /// Whether the log shows the beginning of prompts.
    #[serde(default)]
    pub(crate) log_prompts: bool,
}

/// One provider.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "if" = { "properties": { "kind": { "const": "compatible" } } },
    "then" = { "required": ["base_url"] }
))]
pub(crate) struct ProviderConfig {
    /// What the provider speaks: `gemini`, `openai` (Responses), `anthropic` (Messages), or `compatible` (chat completions, as Ollama, vLLM and OpenRouter have them).
    pub(crate) kind: Kind,
    /// Where it is, up to and including the version (`http://127.0.0.1:11434/v1`).
    pub(crate) base_url: Option<String>,
    /// The API key. Write `${VARIABLE}` instead of the key itself.
    pub(crate) key: Option<Secret>,
    /// A file that holds the API key.
    #[schemars(transform = toolyard_tool::path)]
    pub(crate) key_file: Option<PathBuf>,
    /// The account to sign in with; it is used before the key.
    pub(crate) login: Option<String>,
    /// Headers for each request.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Secret>,
    /// The models to offer, each with its settings: `[packs.models.providers.NAME.models.MODEL]`. Without any, every name is passed on.
    #[serde(default)]
    pub(crate) models: BTreeMap<String, ModelConfig>,
}

/// One model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelConfig {
    /// What the provider calls it, if that is different.
    pub(crate) id: Option<String>,
    /// The price of a million tokens that are sent.
    pub(crate) price_in: Option<f64>,
    /// The price of a million tokens that are sent and were cached by the provider.
    pub(crate) price_cached: Option<f64>,
    /// The price of a million tokens that are received.
    pub(crate) price_out: Option<f64>,
    /// The day on which these prices were right, such as `2026-11-18`.
    pub(crate) priced: Option<String>,
    /// Requests that may run at the same time.
    #[schemars(range(min = 1))]
    pub(crate) concurrent: Option<usize>,
    /// Requests in any minute.
    #[schemars(range(min = 1))]
    pub(crate) per_minute: Option<usize>,
}

/// What a provider speaks.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Gemini,
    OpenAi,
    Anthropic,
    Compatible,
}

impl Kind {
    pub(crate) fn default_url(self) -> Option<&'static str> {
        match self {
            Self::Gemini => Some("https://generativelanguage.googleapis.com/v1beta"),
            Self::OpenAi => Some("https://api.openai.com/v1"),
            Self::Anthropic => Some("https://api.anthropic.com/v1"),
            Self::Compatible => None,
        }
    }
}

fn fallback_agents() -> Vec<String> {
    ["dewey", "explore", "document_writer", "multimodal"].map(String::from).to_vec()
}

fn per_minute() -> usize {
    30
}

fn timeout() -> u64 {
    120
}

fn tools() -> Vec<String> {
    vec!["code:*".into()]
}
