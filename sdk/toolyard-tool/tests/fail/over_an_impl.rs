//! An `impl` block is no tool.

use toolyard_tool::tool;

struct Search;

#[tool]
impl Search {}

fn main() {}
