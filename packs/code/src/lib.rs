//! The pack `code`: search and rewrite code, and an index of it that all agents share.
//!
//! Every path of an argument leads into one of the configured projects or is refused (`project`). `search` works
//! without an index. `index` cuts files into definitions and ranks them by words and by meaning. `change` writes
//! several files at once. `tools` holds the functions that clients call.

mod background;
mod change;
mod config;
mod embed;
mod history;
mod index;
mod language;
#[cfg(feature = "measure")]
pub mod measure;
mod model;
mod project;
mod search;
mod servers;
mod tools;
mod walk;

use std::path::PathBuf;
use std::time::Duration;

use toolyard_tool::{Host, Pack, ToolSet};

use config::{Config, Listed};
use tools::lsp::{change as lsp_change, diagnose, list, navigate};
use tools::{Code, files, map, search as by_text, semantic, watch};

/// A language server may load a project without reporting anything for this long.
const IDLE: Duration = Duration::from_mins(2);

/// The pack, as the gateway takes it in.
pub fn pack() -> Pack {
    Pack::with_host("code", "Search and rewrite code, with an index that all agents share", tools)
        .idle(IDLE)
        .opt_in()
}

/// The tools that are listed unless the configuration asks for all.
const BEST: [&str; 10] = [
    "find_code",
    "code_context",
    "code_map",
    "semantic_search",
    "ast_grep_search",
    "ast_grep_replace",
    "lsp_goto_definition",
    "lsp_find_references",
    "lsp_rename",
    "lsp_diagnostics",
];
const FILES: [&str; 5] = ["read_file", "write_file", "replace", "list_directory", "run_shell_command"];

fn tools(config: Config, host: Host) -> ToolSet<Code> {
    let (listed, files) = (config.tools, config.files);
    let set = all_tools(config, host);
    let set = if files { with_files(set) } else { set };
    match listed {
        Listed::All => set,
        Listed::Best if files => set.list_only(&[BEST.as_slice(), &FILES].concat()),
        Listed::Best => set.list_only(&BEST),
    }
}

fn with_files(set: ToolSet<Code>) -> ToolSet<Code> {
    set.with::<files::read_file>()
        .with::<files::write_file>()
        .with::<files::replace>()
        .with::<files::list_directory>()
        .with::<files::run_shell_command>()
}

fn all_tools(config: Config, host: Host) -> ToolSet<Code> {
    ToolSet::new("toolyard-code", env!("CARGO_PKG_VERSION"))
        .title("Toolyard: code")
        .instructions(
            "Tools for source code. `find_code` chooses the search that fits a query. `code_context` collects what a \
             task needs within a budget. The `lsp_*` tools ask language servers, which stay warm. Rewrites show a \
             diff first and change all files or none. More tools than are listed can be called by name: \
             `grep_search`, `glob_files`, `hybrid_search`, `lsp_hover`, `lsp_document_symbols`, \
             `lsp_workspace_symbols`, `lsp_callers`, `lsp_implementations`, `lsp_code_actions`, `lsp_servers` and others.",
        )
        .state_with(move || {
            let state = host.state().unwrap_or_else(|_| user_folder("XDG_STATE_HOME", ".local/state"));
            let cache = host.cache().unwrap_or_else(|_| cache_folder());
            let code = Code::new(config.clone(), host.clone(), &state, &cache);
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
        .with::<semantic::manage::semantic_index>()
        .with::<semantic::manage::semantic_stats>()
        .with::<semantic::health::semantic_health>()
        .with::<semantic::manage::cancel_indexing>()
        .with::<semantic::manage::delete_index>()
        .with::<watch::start_file_watcher>()
        .with::<watch::stop_file_watcher>()
        .with::<watch::list_file_watchers>()
        .with::<navigate::lsp_hover>()
        .with::<navigate::lsp_goto_definition>()
        .with::<navigate::lsp_find_references>()
        .with::<navigate::lsp_document_symbols>()
        .with::<navigate::lsp_workspace_symbols>()
        .with::<lsp_change::lsp_prepare_rename>()
        .with::<lsp_change::lsp_rename>()
        .with::<lsp_change::actions::lsp_code_actions>()
        .with::<lsp_change::actions::lsp_code_action_resolve>()
        .with::<lsp_change::extract::lsp_extract_refactor>()
        .with::<list::lsp_servers>()
        .with::<list::lsp_health>()
        .with::<diagnose::lsp_diagnostics>()
        .with::<diagnose::lsp_workspace_diagnostics>()
        .with::<diagnose::file_diagnostics>()
        .with::<navigate::lsp_callers>()
        .with::<navigate::lsp_implementations>()
        .with::<navigate::lsp_type_hierarchy>()
        .with::<lsp_change::lsp_format>()
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
