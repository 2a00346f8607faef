//! Questions can only come before a task if there is one.

use toolyard_tool::tool;

/// Does it.
#[tool(asks_first)]
async fn search() {}

fn main() {}
