//! The variables of a template are its arguments.

use toolyard_tool::tool;

/// Does it.
#[tool(template = "a://{b}")]
async fn search() -> String {
    String::new()
}

fn main() {}
