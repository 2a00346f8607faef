//! An argument has a name: a tuple.

use toolyard_tool::tool;

/// Does it.
#[tool]
async fn search(both: (u8, u8)) {}

fn main() {}
