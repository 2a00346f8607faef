//! The keys of `[packs.music]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::path;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Config {
    /// The folder with the music. Nothing outside of it is read or changed.
    #[schemars(transform = path)]
    pub(crate) root: PathBuf,
    /// Follow symbolic links, as long as they stay below the root.
    #[serde(default)]
    pub(crate) allow_symlinks: bool,
}
