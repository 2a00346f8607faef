//! Only tasks that last are resumed.

use toolyard_tool::tool;

/// Does it.
#[tool(task, resume)]
async fn search() {}

fn main() {}
