use toolyard_tool::tool;

/// Does it.
#[tool(readonly)]
async fn search() {}

fn main() {}
