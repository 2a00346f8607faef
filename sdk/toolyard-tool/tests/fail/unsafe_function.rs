use toolyard_tool::tool;

/// Does it.
#[tool]
unsafe fn search() {}

fn main() {}
