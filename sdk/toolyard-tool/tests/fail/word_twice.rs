//! A duplicate option.

use toolyard_tool::tool;

/// Does it.
#[tool(read_only, title = "a", title = "b")]
async fn search() {}

fn main() {}
