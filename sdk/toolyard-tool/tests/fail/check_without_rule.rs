//! What a check asks for must be known before a call is made.

use toolyard_tool::{Problems, tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Years {
    from: u16,
    to: u16,
}

fn check(_: &Years, _: &mut Problems) {}

/// Counts the years.
#[tool(check = check)]
async fn count(_: Years) {}

fn main() {}
