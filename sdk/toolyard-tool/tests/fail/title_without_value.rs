//! A title has a text.

use toolyard_tool::tool;

/// Does it.
#[tool(title)]
async fn search() {}

fn main() {}
