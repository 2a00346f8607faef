//! A tool has no lifetime parameters.

use toolyard_tool::tool;

/// Does it.
#[tool]
async fn search<'a>(state: &'a u32) {}

fn main() {}
