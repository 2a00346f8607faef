//! `cargo xtask ci`: everything that must pass before a change lands, on a machine with nothing but the
//! base tools: Rust, a C compiler, Python 3 with pip, Node.js with npm, git.
//!
//! Each step installs what it needs by package name, pinned, below the target folder.

use anyhow::Result;

use crate::step::step;
use crate::{check, conformance, newcomer, peers, seeds, test};

pub(crate) fn ci() -> Result<()> {
    step("ci", || {
        step("check", check::check)?;
        step("test", test::test)?;
        step("seeds", || seeds::seeds(&seeds::Options::default()))?;
        step("conformance", || conformance::conformance(&conformance::Options::every_door()))?;
        step("conformance across the eras", || conformance::conformance(&conformance::Options::crossed()))?;
        step("peers", peers::peers)?;
        step("newcomer", newcomer::newcomer)
    })
}
