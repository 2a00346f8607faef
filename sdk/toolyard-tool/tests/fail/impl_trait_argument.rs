//! Arguments have a named type.

use toolyard_tool::tool;

/// Does it.
#[tool]
async fn search(query: impl Into<String>) {}

fn main() {}
