//! Two words that contradict each other.

use toolyard_tool::tool;

/// Does it.
#[tool(read_only, destructive)]
async fn search() {}

fn main() {}
