//! A tool has one struct of arguments.

use toolyard_tool::tool;

use serde::{Deserialize};
use toolyard_tool::schemars::JsonSchema;

#[derive(Deserialize, JsonSchema)]
struct Args {
    name: String,
}

/// Does it.
#[tool]
async fn search(a: Args, b: Args) {}

fn main() {}
