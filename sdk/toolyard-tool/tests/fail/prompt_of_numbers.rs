//! A prompt is text or messages.

use toolyard_tool::tool;

/// Does it.
#[tool(prompt)]
async fn search() -> u32 {
    1
}

fn main() {}
