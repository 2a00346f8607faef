//! A resource is text or contents.

use toolyard_tool::tool;

/// Does it.
#[tool(resource = "a://b")]
async fn search() -> u32 {
    1
}

fn main() {}
