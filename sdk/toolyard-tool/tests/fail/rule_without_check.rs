//! A rule that nobody checks is no rule.

use toolyard_tool::tool;

/// Does it.
#[tool(rule = "It must be Monday.")]
async fn search() {}

fn main() {}
