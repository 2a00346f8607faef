//! State is shared.

use toolyard_tool::tool;

/// Does it.
#[tool]
async fn search(library: &mut Vec<u8>) {}

fn main() {}
