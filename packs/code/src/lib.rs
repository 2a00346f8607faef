//! The pack `code`: search and rewrite code, and an index of it that all agents share.
//!
//! Every path of an argument leads into one of the configured projects or is refused (`project`). `search` works
//! without an index. `index` cuts files into definitions and ranks them by words and by meaning. `change` writes
//! several files at once. `tools` holds the functions that clients call.

mod change;
mod config;
mod index;
mod language;
mod model;
mod project;
mod search;
mod tools;
mod walk;

use std::path::PathBuf;

use toolyard_tool::{Pack, ToolSet};

use config::Config;
use tools::{Code, map, search as by_text, semantic, watch};

/// The pack, as the gateway takes it in.
pub fn pack() -> Pack {
    Pack::with_config("code", "Search and rewrite code, with an index that all agents share", tools)
}

fn tools(config: Config) -> ToolSet<Code> {
    ToolSet::new("toolyard-code", env!("CARGO_PKG_VERSION"))
        .title("Toolyard: code")
        .instructions(
            "Tools for source code. `find_code` chooses the search that fits a query. `code_context` collects what a \
             task needs within a budget. Rewrites show a diff first and change all files or none.",
        )
        .state_with(move || {
            let code = Code::new(config.clone(), &user_folder("XDG_STATE_HOME", ".local/state"), &cache_folder());
            async { Ok(code) }
        })
        .with::<by_text::find_code>()
        .with::<map::code_context>()
        .with::<map::code_map>()
        .with::<by_text::grep_search>()
        .with::<by_text::glob_files>()
        .with::<by_text::ast_grep_search>()
        .with::<by_text::ast_grep_replace>()
        .with::<semantic::semantic_search>()
        .with::<semantic::hybrid_search>()
        .with::<semantic::multi_query_search>()
        .with::<semantic::decomposed_search>()
        .with::<semantic::enhanced_search>()
        .with::<semantic::semantic_index>()
        .with::<semantic::semantic_stats>()
        .with::<semantic::cancel_indexing>()
        .with::<semantic::delete_index>()
        .with::<watch::start_file_watcher>()
        .with::<watch::stop_file_watcher>()
        .with::<watch::list_file_watchers>()
}

/// Indexes can be made again, and all gateways of the user share them.
fn cache_folder() -> PathBuf {
    user_folder("XDG_CACHE_HOME", ".cache").join("code")
}

fn user_folder(variable: &str, below_home: &str) -> PathBuf {
    let base = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().unwrap_or_else(std::env::temp_dir).join(below_home);
    base.unwrap_or_else(home).join("toolyard")
}

#[cfg(test)]
mod tests;
