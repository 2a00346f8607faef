//! A struct is not a tool.

use toolyard_tool::tool;

/// Does it.
#[tool]
struct Search;

fn main() {}
