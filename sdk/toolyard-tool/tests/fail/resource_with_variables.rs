//! A URI with variables is a template.

use toolyard_tool::tool;

/// Does it.
#[tool(resource = "a://{b}")]
async fn search() -> String {
    String::new()
}

fn main() {}
