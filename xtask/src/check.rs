//! `cargo xtask check`: checks of the code that do not run it.

use anyhow::Result;

use crate::step::step;
use crate::{deny, process, tidy, workspace};

pub(crate) fn check() -> Result<()> {
    step("format", || process::run(workspace::cargo().args(["fmt", "--all", "--check"])))?;
    step("tidy", || tidy::tidy(&tidy::Options::default()))?;
    step("clippy", || {
        let clippy = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        process::run(workspace::cargo().args(clippy))
    })?;
    // Together with the workspace, so that the features of everything else stay the same and only the targets with gated
    // code are checked again.
    step("clippy with the features `cluster` and `measure`", || {
        let features = ["clippy", "--workspace", "--features", "toolyard/cluster,toolyard-pack-code/measure"];
        let targets = ["--bins", "--test", "cluster", "--example", "measure"];
        process::run(workspace::cargo().args(features).args(targets).args(["--", "--deny", "warnings"]))
    })?;
    step("deny", deny::deny)
}
