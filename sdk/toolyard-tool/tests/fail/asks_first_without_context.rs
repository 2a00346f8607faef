//! A function that asks questions needs a context.

use toolyard_tool::tool;

/// Does it.
#[tool(task, asks_first)]
async fn search() {}

fn main() {}
