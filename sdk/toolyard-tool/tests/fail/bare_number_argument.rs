//! An argument has a name: a number.

use toolyard_tool::tool;

/// Does it.
#[tool]
fn search(count: u32) {}

fn main() {}
