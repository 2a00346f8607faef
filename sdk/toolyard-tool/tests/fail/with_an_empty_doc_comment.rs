use toolyard_tool::tool;

/// # Errors
/// Always.
#[tool]
async fn search() {}

fn main() {}
