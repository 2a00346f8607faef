//! Plans: many changes in one call, with a dry run and a common undo. A journal in the library
//! records each change before it is made, so that a plan can be undone even if the process was killed.

pub(crate) mod forecast;
pub(crate) mod journal;
pub(crate) mod run;
pub(crate) mod undo;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::Problems;

use crate::tags::{TagChange, write};
use crate::tools::cover::EmbedCover;

/// One change.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Operation {
    /// Make a folder, and those above it.
    Mkdir(PlanMkdir),
    /// Move a file or folder.
    Move(PlanMove),
    /// Write tags, as the tool `write_metadata` does.
    WriteMetadata(Box<TagChange>),
    /// Put a picture into a file, as the tool `embed_cover` does.
    EmbedCover(EmbedCover),
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanMkdir {
    /// The folder to make.
    pub(crate) path: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanMove {
    /// What to move.
    pub(crate) from: String,
    /// Where to.
    pub(crate) to: String,
    /// Make the folders it goes into.
    #[serde(default)]
    pub(crate) mkdir_parents: bool,
    /// Replace a file that is there.
    #[serde(default)]
    pub(crate) overwrite: bool,
}

/// The kind of an operation, in answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OpKind {
    Mkdir,
    Move,
    WriteMetadata,
    EmbedCover,
}

impl Operation {
    pub(crate) fn kind(&self) -> OpKind {
        match self {
            Self::Mkdir(_) => OpKind::Mkdir,
            Self::Move(_) => OpKind::Move,
            Self::WriteMetadata(_) => OpKind::WriteMetadata,
            Self::EmbedCover(_) => OpKind::EmbedCover,
        }
    }

    /// Checks that no schema can express.
    pub(crate) fn check(&self, problems: &mut Problems) {
        match self {
            Self::Mkdir(_) | Self::Move(_) | Self::EmbedCover(_) => {}
            Self::WriteMetadata(change) => write::check(change, problems),
        }
    }
}
