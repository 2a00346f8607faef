//! The keys of `[packs.sessions]`.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whose sessions can be read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The programs whose sessions can be read: `claude`, `codex`, `gemini`.
    pub(crate) programs: Vec<Program>,
    /// Folders whose sessions and skills every client may read, besides those of its own folder and roots.
    #[serde(default)]
    #[schemars(transform = toolyard_tool::path)]
    pub(crate) projects: Vec<PathBuf>,
    /// Let every client read the sessions of all folders.
    #[serde(default)]
    pub(crate) everywhere: bool,
    /// The folder that has `.claude`, `.codex` and `.gemini`; your home folder by default.
    #[schemars(transform = toolyard_tool::path)]
    pub(crate) home: Option<PathBuf>,
}

/// A program that writes sessions.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Program {
    Claude,
    Codex,
    Gemini,
}

impl Program {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Where it keeps its sessions.
    pub(crate) fn folder(self, home: &Path) -> PathBuf {
        match self {
            Self::Claude => home.join(".claude/projects"),
            Self::Codex => home.join(".codex/sessions"),
            Self::Gemini => home.join(".gemini/tmp"),
        }
    }
}

impl Config {
    pub(crate) fn home(&self) -> PathBuf {
        self.home.clone().or_else(std::env::home_dir).unwrap_or_default()
    }
}
