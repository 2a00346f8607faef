//! How long a task is kept is a time with a unit.

use toolyard_tool::tool;

/// Does it.
#[tool(task, keep = "a week")]
async fn search() {}

fn main() {}
