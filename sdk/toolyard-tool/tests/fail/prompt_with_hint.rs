//! A prompt has no hints.

use toolyard_tool::tool;

/// Does it.
#[tool(prompt, read_only)]
async fn search() -> String {
    String::new()
}

fn main() {}
