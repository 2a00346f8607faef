//! The tools, one file for each group.

pub(crate) mod acoustic;
pub(crate) mod change;
pub(crate) mod cover;
pub(crate) mod duplicates;
pub(crate) mod hash;
pub(crate) mod inventory;
pub(crate) mod list;
pub(crate) mod manifests;
pub(crate) mod mb;
pub(crate) mod metadata;
pub(crate) mod naming;
pub(crate) mod plan;
pub(crate) mod scan;

use schemars::JsonSchema;
use serde::Serialize;
use toolyard_jail::Kind;

/// What something on the disk is, in answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ItemType {
    File,
    Directory,
    Symlink,
    Other,
}

impl From<Kind> for ItemType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::File => Self::File,
            Kind::Folder => Self::Directory,
            Kind::Symlink => Self::Symlink,
            Kind::Other => Self::Other,
        }
    }
}

/// "1 file", "2 files".
pub(crate) fn count(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}
