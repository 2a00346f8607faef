//! A completion wants to know what was typed.

use toolyard_tool::tool;

/// Does it.
#[tool(completes = "x", argument = "y")]
async fn search() -> Vec<String> {
    Vec::new()
}

fn main() {}
