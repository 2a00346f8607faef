//! The pack `scripts`: runs the scripts of a project (of `package.json`, Cargo, a Makefile or a justfile) as child
//! processes of the gateway, and keeps what they print, so that an agent can start a dev server and read its log.
//!
//! `find` knows which scripts a project has, `run` starts and stops them, `log` keeps and filters their lines, and
//! `tools` holds the functions that clients call. What is run comes from the project and the config, never from a
//! request, and only after the user has trusted the project.

mod find;
mod log;
mod run;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Host, Pack, ToolSet};

use run::Runs;

/// The keys of `[packs.scripts]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The folder of the project.
    #[schemars(transform = toolyard_tool::path)]
    root: PathBuf,
    /// Further scripts: a name, and the program with its arguments.
    #[serde(default)]
    commands: BTreeMap<String, Vec<String>>,
}

/// The pack, as the gateway takes it in.
pub fn pack() -> Pack {
    Pack::with_host("scripts", "Run a project's scripts, such as its dev server, and read their logs", tools)
}

fn tools(config: Config, host: Host) -> ToolSet<Runs> {
    ToolSet::new("toolyard-scripts", env!("CARGO_PKG_VERSION"))
        .title("Toolyard: scripts")
        .proven_users_only()
        .instructions(
            "Runs the scripts of a project and keeps what they print. `list` shows the scripts, `run` starts one and \
             returns its id, `logs` reads what it printed (with `wait` for new lines), `status` shows what runs, and \
             `stop` ends one with everything that it has started.",
        )
        .state(Runs::new(config, host))
        .with::<tools::list>()
        .with::<tools::run>()
        .with::<tools::status>()
        .with::<tools::logs>()
        .with::<tools::stop>()
}
