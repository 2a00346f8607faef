//! A tool is not `extern`.

use toolyard_tool::tool;

/// Does it.
#[tool]
extern "C" fn search() {}

fn main() {}
