//! An `impl` block is not a tool.

use toolyard_tool::tool;

struct Search;

#[tool]
impl Search {}

fn main() {}
