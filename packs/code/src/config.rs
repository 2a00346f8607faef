//! The keys of `[packs.code]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// What the pack may touch and what it offers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Folders whose projects may be searched. A project is the folder itself or a git repository below it.
    #[serde(default)]
    #[schemars(transform = toolyard_tool::path)]
    pub projects: Vec<PathBuf>,
    /// Whether tools may change files of these projects.
    #[serde(default)]
    pub write: bool,
    /// Which tools are listed: the most useful ones, or all. All can be called in any case.
    #[serde(default)]
    pub tools: Listed,
    /// Which model ranks by meaning: `fast`, or `precise` for questions that read like doc comments.
    #[serde(default)]
    pub model: ModelChoice,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Listed {
    #[default]
    Useful,
    All,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ModelChoice {
    #[default]
    Fast,
    Precise,
}
