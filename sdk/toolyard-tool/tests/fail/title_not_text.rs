//! A title is text.

use toolyard_tool::tool;

/// Does it.
#[tool(title = 7)]
async fn search() {}

fn main() {}
