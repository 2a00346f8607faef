//! A rule must not be blank.

use toolyard_tool::{Problems, tool};

fn in_order(_: &Years, _: &mut Problems) {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Years {}

/// Does it.
#[tool(check = in_order, rule = " ")]
async fn search(_: Years) {}

fn main() {}
