//! A name is one that models accept: not too long.

use toolyard_tool::tool;

/// Does it.
#[tool(name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")]
async fn search() {}

fn main() {}
