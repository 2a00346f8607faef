//! Who asks needs somebody to ask.

use toolyard_tool::tool;

/// Does it.
#[tool(task, asks_first)]
async fn search() {}

fn main() {}
