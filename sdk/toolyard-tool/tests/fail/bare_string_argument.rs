//! An argument has a name: text.

use toolyard_tool::tool;

/// Does it.
#[tool]
async fn search(query: String) {}

fn main() {}
