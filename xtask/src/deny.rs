//! `cargo xtask deny`: licences, bans and sources of all dependencies, as set in `deny.toml`.
//!
//! Advisories are left out: their database is not in a package registry, so a machine that reaches
//! nothing but registries cannot fetch it. Run `cargo deny check advisories` where it can.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::{process, workspace};

/// The copies of this on the package indexes are years old, so it is built; without optional features
/// and unoptimised that takes a minute, once.
const VERSION: &str = "0.20.2";

pub(crate) fn deny() -> Result<()> {
    let mut deny = Command::new(cargo_deny()?);
    deny.current_dir(workspace::root());
    process::run(deny.args(["--all-features", "check", "licenses", "bans", "sources"]))
}

fn cargo_deny() -> Result<PathBuf> {
    let root = workspace::tools_directory()?.join(format!("cargo-deny-{VERSION}"));
    let program = root.join("bin/cargo-deny");
    if !program.is_file() {
        let mut cargo = workspace::cargo();
        cargo.args(["install", "--quiet", "--locked", "--debug", "--no-default-features"]);
        cargo.arg("--root").arg(&root).arg(format!("cargo-deny@{VERSION}"));
        // A target folder of its own: the workspace's must not be locked or filled by it.
        cargo.env("CARGO_TARGET_DIR", root.join("target"));
        process::run(&mut cargo)?;
        std::fs::remove_dir_all(root.join("target"))?;
    }
    Ok(program)
}
