//! A pack that watches a folder. It shows what a pack gets from its host: background work (`index`), a folder that
//! lasts, child processes, calls of other tools, and a task that asks a question and survives a restart (`tools`).
//!
//! Nothing happens before the first call: listing the pack creates no folder, file or process.

mod index;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Host, Pack, ToolError, ToolSet};

use index::Index;

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The folder to watch.
    #[schemars(transform = toolyard_tool::path)]
    folder: PathBuf,
    /// Milliseconds between two looks at the folder.
    #[serde(default = "pause")]
    #[schemars(range(min = 10, max = 3_600_000))]
    pause_ms: u64,
}

fn pause() -> u64 {
    2_000
}

/// What the tools share. It is made by the first call.
pub(crate) struct Watcher {
    pub(crate) folder: PathBuf,
    pub(crate) index: Arc<Index>,
    pub(crate) host: Host,
}

/// The pack, as a gateway takes it in.
pub fn pack() -> Pack {
    Pack::with_host("watcher", "Watches a folder and keeps an index of it", tools)
}

fn tools(config: Config, host: Host) -> ToolSet<Watcher> {
    ToolSet::new("watcher", env!("CARGO_PKG_VERSION"))
        .state_with(move || std::future::ready(watch(&config, &host)))
        .with::<tools::list_files>()
        .with::<tools::count_lines>()
        .with::<tools::checksum>()
        .with::<tools::delete_empty>()
}

fn watch(config: &Config, host: &Host) -> Result<Watcher, ToolError> {
    let index = Arc::new(Index::open(&host.state()?)?);
    index.look(&config.folder)?;
    host.spawn("watch", index.clone().keep(config.folder.clone(), config.pause_ms));
    Ok(Watcher { folder: config.folder.clone(), index, host: host.clone() })
}
