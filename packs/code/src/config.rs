//! The keys of `[packs.code]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolyard_tool::Secret;

/// What the pack may touch and what it offers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Config {
    /// Folders whose projects may be searched. A project is the folder itself or a git repository below it. On a
    /// connection that proves its user, the repository that the caller works in may be searched, too.
    #[serde(default)]
    #[schemars(transform = toolyard_tool::path)]
    pub(crate) projects: Vec<PathBuf>,
    /// Whether tools may change files of these projects.
    #[serde(default)]
    pub(crate) write: bool,
    /// Which model ranks by meaning: `fast`, or `precise` for questions that read like doc comments.
    #[serde(default)]
    pub(crate) model: ModelChoice,
    /// Another model that ranks by meaning, instead of a built-in one.
    pub(crate) embeddings: Option<EmbeddingsConfig>,
    /// Further models that rank by meaning, by the names with which callers can ask for them (`provider`).
    #[serde(default)]
    pub(crate) providers: BTreeMap<String, EmbeddingsConfig>,
    /// The tool that rewords questions for `multi_query_search`, `decomposed_search` and `enhanced_search`.
    pub(crate) reword: Option<RewordConfig>,
    /// Which tools are listed: the ten most useful ones (`best`) or `all`. All can be called.
    #[serde(default)]
    pub(crate) tools: Listed,
    /// Whether there are tools that read, write and list files and run shell commands.
    #[serde(default)]
    pub(crate) files: bool,
    /// Language servers by name: changes to known ones, and servers of your own.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, ServerConfig>,
    /// How many seconds a language server may be unused before it is stopped.
    #[serde(default = "half_an_hour")]
    #[schemars(range(min = 1))]
    pub(crate) server_idle_seconds: u64,
    /// How much memory a language server may use before it is stopped, in megabytes.
    #[serde(default = "four_gigabytes")]
    #[schemars(range(min = 1))]
    pub(crate) server_memory_mb: u64,
    /// How many language servers may run at once.
    #[serde(default = "eight")]
    #[schemars(range(min = 1, max = 64))]
    pub(crate) max_servers: usize,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Listed {
    #[default]
    Best,
    All,
}

fn half_an_hour() -> u64 {
    30 * 60
}

fn four_gigabytes() -> u64 {
    4096
}

fn eight() -> usize {
    8
}

/// A language server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct ServerConfig {
    /// The program and its arguments.
    #[serde(default)]
    pub(crate) command: Vec<String>,
    /// The file name extensions that it serves.
    #[serde(default)]
    pub(crate) extensions: Vec<String>,
    /// What the protocol calls the language; the extension by default.
    pub(crate) language: Option<String>,
    /// Settings that the server can ask for.
    #[serde(default)]
    pub(crate) settings: Value,
    /// Options for the start of the server.
    #[serde(default)]
    pub(crate) initialization_options: Value,
    /// Whether it runs code of the project, so that it starts in trusted projects only.
    pub(crate) runs_project_code: Option<bool>,
    /// Whether it may be used.
    #[serde(default = "yes")]
    pub(crate) enabled: bool,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ModelChoice {
    #[default]
    Fast,
    Precise,
}

/// Where vectors come from.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmbeddingsConfig {
    /// `ollama`, `openai` (and services like it), `gemini`, `huggingface`, or `model2vec` for a folder on the disk.
    pub(crate) provider: Provider,
    /// The name of the model, such as `nomic-embed-text`.
    pub(crate) model: Option<String>,
    /// The address of the service. For `huggingface`, the whole address of the endpoint.
    pub(crate) base_url: Option<String>,
    /// The key of the service.
    pub(crate) key: Option<Secret>,
    /// The folder of a model2vec model.
    #[schemars(transform = toolyard_tool::path)]
    pub(crate) path: Option<PathBuf>,
    /// What is put before a question. Known for nomic and mxbai models.
    pub(crate) query_prefix: Option<String>,
    /// What is put before a piece of code.
    pub(crate) passage_prefix: Option<String>,
}

impl EmbeddingsConfig {
    /// Whether its vectors may cost money: those of a service that takes a key.
    pub(crate) fn is_paid(&self) -> bool {
        self.key.is_some() && self.provider != Provider::Model2vec
    }
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Provider {
    Ollama,
    Openai,
    Gemini,
    Huggingface,
    Model2vec,
}

impl Provider {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ollama => "ollama",
            Self::Openai => "openai",
            Self::Gemini => "gemini",
            Self::Huggingface => "huggingface",
            Self::Model2vec => "model2vec",
        }
    }
}

impl Config {
    /// The names by which a caller can ask for the provider that is used by default, the most general one first.
    pub(crate) fn default_provider(&self) -> Vec<&'static str> {
        match (&self.embeddings, self.model) {
            (None, ModelChoice::Fast) => vec!["built-in", "fast"],
            (None, ModelChoice::Precise) => vec!["built-in", "precise"],
            (Some(embeddings), _) => {
                let is_mxbai = embeddings.model.as_ref().is_some_and(|model| model.starts_with("mxbai"));
                let mxbai = (embeddings.provider == Provider::Ollama && is_mxbai).then_some("mxbai");
                [embeddings.provider.as_str()].into_iter().chain(mxbai).collect()
            }
        }
    }
}

/// A tool that a model answers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RewordConfig {
    /// Its name, as the caller sees it.
    #[serde(default = "ask_model")]
    pub(crate) tool: String,
    /// The name of its argument for the question.
    #[serde(default = "prompt")]
    pub(crate) prompt: String,
    /// Further arguments, such as `model`.
    #[serde(default)]
    pub(crate) arguments: serde_json::Map<String, Value>,
}

fn ask_model() -> String {
    "models__ask_model".to_owned()
}

fn prompt() -> String {
    "prompt".to_owned()
}
