//! A completion is for one argument.

use toolyard_tool::{Typed, tool};

/// Does it.
#[tool(completes = "x")]
async fn search(typed: Typed) -> Vec<String> {
    vec![typed.text]
}

fn main() {}
