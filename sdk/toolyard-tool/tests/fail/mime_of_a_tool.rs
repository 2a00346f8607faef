//! A tool has no media type.

use toolyard_tool::tool;

/// Does it.
#[tool(mime = "text/plain")]
async fn search() {}

fn main() {}
