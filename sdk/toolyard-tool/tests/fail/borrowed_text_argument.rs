//! Arguments are owned.

use toolyard_tool::tool;

/// Does it.
#[tool]
async fn search(query: &str) {}

fn main() {}
