//! A function is one thing.

use toolyard_tool::tool;

/// Does it.
#[tool(prompt, resource = "a://b")]
async fn search() -> String {
    String::new()
}

fn main() {}
