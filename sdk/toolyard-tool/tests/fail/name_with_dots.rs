//! A name is one that models accept: no dots.

use toolyard_tool::tool;

/// Does it.
#[tool(name = "notes.search")]
async fn search() {}

fn main() {}
