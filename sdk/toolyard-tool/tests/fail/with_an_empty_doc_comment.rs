//! What stands under a heading is no description for models.

use toolyard_tool::tool;

/// # Errors
/// Always.
#[tool]
async fn search() {}

fn main() {}
