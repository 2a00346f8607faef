//! Braces of a template stand around names.

use toolyard_tool::tool;

/// Does it.
#[tool(template = "a://}b{c")]
async fn search() -> String {
    String::new()
}

fn main() {}
