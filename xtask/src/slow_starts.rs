//! `cargo xtask slow-starts`: thirty-seven servers that each need 12 s to start, through the real gateway.
//!
//! The tests of the workspace run the same with one second each.

use anyhow::Result;

use crate::{process, workspace};

const SECONDS: &str = "12";

pub(crate) fn slow_starts() -> Result<()> {
    workspace::require_target("toolyard", "test", "load")?;
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--package", "toolyard", "--test", "load", "--", "--nocapture", "slow_starts::"]);
    process::run(cargo.env("TOOLYARD_START_SECONDS", SECONDS))
}
