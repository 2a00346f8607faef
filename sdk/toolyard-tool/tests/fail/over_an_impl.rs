use toolyard_tool::tool;

struct Search;

#[tool]
impl Search {}

fn main() {}
