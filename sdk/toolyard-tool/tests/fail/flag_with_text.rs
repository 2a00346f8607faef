//! A flag is true or false.

use toolyard_tool::tool;

/// Does it.
#[tool(read_only = "yes")]
async fn search() {}

fn main() {}
