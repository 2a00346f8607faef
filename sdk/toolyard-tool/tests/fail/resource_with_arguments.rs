//! A resource has no arguments.

use toolyard_tool::tool;

use serde::{Deserialize};
use toolyard_tool::schemars::JsonSchema;

#[derive(Deserialize, JsonSchema)]
struct Args {
    name: String,
}

/// Does it.
#[tool(resource = "a://b")]
async fn search(args: Args) -> String {
    args.name
}

fn main() {}
