//! Arguments must be readable.

use toolyard_tool::tool;

use toolyard_tool::schemars::JsonSchema;

#[derive(JsonSchema)]
struct Args {
    name: String,
}

/// Does it.
#[tool]
async fn search(args: Args) -> String {
    args.name
}

fn main() {}
