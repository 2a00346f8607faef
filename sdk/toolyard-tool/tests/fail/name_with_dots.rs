use toolyard_tool::tool;

/// Does it.
#[tool(name = "notes.search")]
async fn search() {}

fn main() {}
