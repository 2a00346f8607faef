//! A tool is not `const`.

use toolyard_tool::tool;

/// Does it.
#[tool]
const fn search() {}

fn main() {}
