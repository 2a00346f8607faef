//! A rule needs a check.

use toolyard_tool::tool;

/// Does it.
#[tool(rule = "It must be Monday.")]
async fn search() {}

fn main() {}
