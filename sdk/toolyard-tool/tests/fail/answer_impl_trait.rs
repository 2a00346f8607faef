//! An answer has a named type.

use toolyard_tool::tool;

/// Does it.
#[tool]
async fn search() -> impl Into<String> {
    "x"
}

fn main() {}
