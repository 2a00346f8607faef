//! `cargo xtask test`: all tests of the workspace, examples in the documentation included.

use anyhow::Result;

use crate::{process, workspace};

pub(crate) fn test() -> Result<()> {
    if process::find("cargo-nextest").is_none() {
        return process::run(workspace::cargo().args(["test", "--workspace"]));
    }
    process::run(workspace::cargo().args(["nextest", "run", "--workspace", "--no-fail-fast"]))?;
    // nextest does not run the examples in documentation.
    process::run(workspace::cargo().args(["test", "--workspace", "--doc", "--quiet"]))
}
