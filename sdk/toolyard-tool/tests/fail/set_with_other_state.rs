//! A set has the state that its tools take: another.

use toolyard_tool::{ToolSet, tool};

struct Library;

/// Does it.
#[tool]
async fn search(_library: &Library) {}

fn main() {
    let _ = ToolSet::new("a", "1").state(7_u32).with::<search>();
}
