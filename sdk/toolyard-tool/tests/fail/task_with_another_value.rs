//! A task is allowed or required.

use toolyard_tool::tool;

/// Does it.
#[tool(task = "maybe")]
async fn search() {}

fn main() {}
