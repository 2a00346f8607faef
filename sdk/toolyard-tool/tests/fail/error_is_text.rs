//! Text is not an error.

use toolyard_tool::tool;

/// Does it.
#[tool]
async fn search() -> Result<String, String> {
    Err("no".into())
}

fn main() {}
