//! A resource has a URI.

use toolyard_tool::tool;

/// Does it.
#[tool(resource = "readme")]
async fn search() -> String {
    String::new()
}

fn main() {}
