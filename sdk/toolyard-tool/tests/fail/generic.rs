//! A tool is not generic.

use toolyard_tool::tool;

/// Does it.
#[tool]
async fn search<T: Send>() {}

fn main() {}
