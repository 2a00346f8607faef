//! Only tasks are kept.

use toolyard_tool::tool;

/// Does it.
#[tool(keep = "7d")]
async fn search() {}

fn main() {}
