//! The pack `dev`: small tools that every agent needs now and then and that a model cannot do by itself. They
//! read and change nothing, so the pack needs no configuration and is on by default.

mod clock;
mod environment;
mod hash;
mod time_now;
mod uuid;

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Host, Pack, ToolSet, tool};

/// The pack, as the gateway takes it in.
pub fn pack() -> Pack {
    Pack::with_host("dev", "Small tools that need no configuration: time, ids, checksums", tools)
}

/// It has no keys.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

fn tools(_: Config, host: Host) -> ToolSet<Host> {
    ToolSet::new("toolyard-dev", env!("CARGO_PKG_VERSION"))
        .title("Toolyard: dev")
        .state(host)
        .with::<echo>()
        .with::<time_now::time_now>()
        .with::<uuid::uuid>()
        .with::<hash::hash>()
        .with::<environment::version>()
        .with::<environment::get_system_health>()
        .with::<environment::get_project_context>()
        .with::<environment::tool_search>()
        .with::<environment::system_restart>()
        .list_only(&LISTED)
}

/// The tools about the environment are found by search.
const LISTED: [&str; 4] = ["echo", "time_now", "uuid", "hash"];

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to answer.
    text: String,
}

/// Answers with the text it is given. Shows that calls get through.
#[tool(read_only, idempotent)]
async fn echo(args: Echo) -> String {
    args.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pack_needs_no_configuration() {
        assert!(!pack().needs_config());
        let names: Vec<String> =
            tools(Config {}, Host::inert("dev")).tool_names().map(ToOwned::to_owned).collect();
        assert_eq!(names[..4], LISTED);
        assert_eq!(names.len(), 9);
    }
}
