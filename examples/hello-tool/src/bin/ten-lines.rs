//! A server in ten lines.

use toolyard_tool::{ToolSet, tool};

/// Returns what it is good for.
#[tool(read_only)]
async fn hello() -> &'static str {
    "Hello!"
}

fn main() -> std::process::ExitCode {
    toolyard_tool::run(ToolSet::new("ten-lines", "1.0.0").with::<hello>())
}
