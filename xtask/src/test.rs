//! `cargo xtask test`: all tests of the workspace, examples in the documentation included.

use anyhow::Result;

use crate::{process, tools, workspace};

pub(crate) fn test() -> Result<()> {
    // The tests of the music pack make their own audio and compare fingerprints.
    tools::debian("ffmpeg")?;
    tools::debian_package("fpcalc", "libchromaprint-tools")?;
    if process::find("cargo-nextest").is_none() {
        return process::run(workspace::cargo().args(["test", "--workspace"]));
    }
    process::run(workspace::cargo().args(["nextest", "run", "--workspace", "--no-fail-fast"]))?;
    // nextest does not run the examples in documentation.
    process::run(workspace::cargo().args(["test", "--workspace", "--doc", "--quiet"]))
}
