use toolyard_tool::tool;

#[tool]
async fn search() {}

fn main() {}
