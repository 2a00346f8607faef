//! Not every type is a tool.

use toolyard_tool::ToolSet;

fn main() {
    let _ = ToolSet::new("a", "1").with::<String>();
}
