//! A tool has a description.

use toolyard_tool::tool;

#[tool]
async fn search() {}

fn main() {}
