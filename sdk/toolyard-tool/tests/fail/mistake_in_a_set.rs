//! A mistake in a function has one message, also where the function is added to a set.

use toolyard_tool::{ToolSet, tool};

/// Does it.
#[tool(readonly)]
fn search() {}

fn main() {
    let _ = ToolSet::new("a", "1").with::<search>();
}
