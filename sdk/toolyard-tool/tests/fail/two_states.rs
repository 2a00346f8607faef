//! A set has one state.

use toolyard_tool::tool;

/// Does it.
#[tool]
async fn search(a: &u32, b: &u64) {}

fn main() {}
