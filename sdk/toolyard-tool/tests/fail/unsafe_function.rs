//! A tool is not `unsafe`.

use toolyard_tool::tool;

/// Does it.
#[tool]
unsafe fn search() {}

fn main() {}
