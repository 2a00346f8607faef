//! A check looks at the arguments of its tool.

use toolyard_tool::{Problems, tool};
use serde::{Deserialize};
use toolyard_tool::schemars::JsonSchema;

#[derive(Deserialize, JsonSchema)]
struct Args {
    name: String,
}

fn check(_: &String, _: &mut Problems) {}

/// Does it.
#[tool(check = check, rule = "It must do.")]
async fn search(args: Args) -> String {
    args.name
}

fn main() {}
