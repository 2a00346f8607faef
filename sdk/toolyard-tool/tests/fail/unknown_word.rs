//! A word that the attribute does not know.

use toolyard_tool::tool;

/// Does it.
#[tool(readonly)]
async fn search() {}

fn main() {}
