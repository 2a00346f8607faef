//! One context is enough.

use toolyard_tool::{Context, tool};

/// Does it.
#[tool]
async fn search(a: &Context, b: Context) {}

fn main() {}
