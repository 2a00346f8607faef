//! Something that is not a word.

use toolyard_tool::tool;

/// Does it.
#[tool("search")]
async fn search() {}

fn main() {}
