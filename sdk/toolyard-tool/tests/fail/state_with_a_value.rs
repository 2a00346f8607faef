//! State that is made at the first call is made by a function that may fail.

use toolyard_tool::ToolSet;

fn load() -> Vec<String> {
    Vec::new()
}

fn main() {
    let _ = ToolSet::new("a", "1").state_with(load);
}
