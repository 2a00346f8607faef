//! Text under a heading is not a description for models.

use toolyard_tool::tool;

/// # Errors
/// Always.
#[tool]
async fn search() {}

fn main() {}
