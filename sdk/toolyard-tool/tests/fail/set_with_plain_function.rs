//! Not every function is a tool.

use toolyard_tool::ToolSet;

async fn search() {}

fn main() {
    let _ = ToolSet::new("a", "1").with::<search>();
}
