//! `cargo xtask cluster`: several real gateways as one, over a real nats-server.
//!
//! Installs the pinned nats-server and nginx, and runs the test target `cluster` of the package `toolyard`, which finds the
//! programs by the variables `TOOLYARD_NATS` and `TOOLYARD_NGINX`. A name selects the tests whose names contain it.
//! Without one and without `--quick`, the conformance suite is then run through a node that owns nothing.

use anyhow::Result;
use clap::Args;

use crate::step::step;
use crate::{conformance, process, tools, workspace};

#[derive(Args, Default)]
pub(crate) struct Options {
    /// Run only the tests whose names contain this.
    filter: Option<String>,
    /// Leave out what takes longer than half a minute.
    #[arg(long)]
    quick: bool,
}

impl Options {
    /// What every change has to pass.
    pub(crate) fn quick() -> Self {
        Self { filter: None, quick: true }
    }
}

pub(crate) fn cluster(options: &Options) -> Result<()> {
    let nats = step("install nats-server", tools::nats_server)?;
    let nginx = step("install nginx", tools::nginx)?;
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--package", "toolyard", "--features", "cluster", "--test", "cluster", "--"]);
    cargo.args(["--nocapture", "--test-threads", "3"]).args(&options.filter);
    if options.quick {
        cargo.args(["--skip", "long::"]);
    }
    process::run(cargo.env("TOOLYARD_NATS", &nats).env("TOOLYARD_NGINX", nginx))?;
    if options.filter.is_some() || options.quick {
        return Ok(());
    }
    step("conformance through a node that owns nothing", || {
        conformance::conformance(&conformance::Options::through_a_node(nats))
    })
}
