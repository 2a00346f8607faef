//! Arguments need a schema.

use toolyard_tool::tool;

use serde::Deserialize;

#[derive(Deserialize)]
struct Args {
    name: String,
}

/// Does it.
#[tool]
async fn search(args: Args) -> String {
    args.name
}

fn main() {}
