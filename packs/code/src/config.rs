//! The keys of `[packs.code]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// What the pack may touch and what it offers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Config {
    /// Folders whose projects may be searched. A project is the folder itself or a git repository below it.
    #[schemars(transform = toolyard_tool::path)]
    pub(crate) projects: Vec<PathBuf>,
    /// Whether tools may change files of these projects.
    #[serde(default)]
    pub(crate) write: bool,
    /// Which model ranks by meaning: `fast`, or `precise` for questions that read like doc comments.
    #[serde(default)]
    pub(crate) model: ModelChoice,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ModelChoice {
    #[default]
    Fast,
    Precise,
}
