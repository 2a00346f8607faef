//! A whole MCP server: one tool, served on whatever the arguments ask for (stdio without any).

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{ToolSet, tool};

#[derive(Deserialize, JsonSchema)]
struct Hello {
    /// Who to greet.
    name: String,
}

/// Greets a person.
#[tool(read_only)]
async fn hello(args: Hello) -> String {
    format!("Hello, {}!", args.name)
}

pub(crate) fn tools() -> ToolSet {
    ToolSet::new("hello-tool", "1.0.0").with::<hello>()
}

fn main() -> ExitCode {
    toolyard_tool::run(tools())
}
