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
    step("deny", deny::deny)
}
