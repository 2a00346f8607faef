//! `cargo xtask cluster`: several real gateways as one, over a real nats-server.
//!
//! Installs the pinned nats-server and runs the test target `cluster` of the package `toolyard`, which finds the
//! server by the variable `TOOLYARD_NATS`. A name selects the tests whose names contain it.

use anyhow::Result;
use clap::Args;

use crate::step::step;
use crate::{process, tools, workspace};

#[derive(Args)]
pub(crate) struct Options {
    /// Run only the tests whose names contain this.
    filter: Option<String>,
}

pub(crate) fn cluster(options: &Options) -> Result<()> {
    let nats = step("install nats-server", tools::nats_server)?;
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--package", "toolyard", "--features", "cluster", "--test", "cluster", "--"]);
    cargo.args(["--nocapture", "--test-threads", "2"]).args(&options.filter);
    process::run(cargo.env("TOOLYARD_NATS", nats))
}
