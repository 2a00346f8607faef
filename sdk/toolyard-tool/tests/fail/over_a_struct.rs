//! A struct is no tool.

use toolyard_tool::tool;

/// Does it.
#[tool]
struct Search;

fn main() {}
