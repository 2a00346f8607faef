//! `cargo xtask ci`: everything that must pass before a change lands, on a machine with nothing but the
//! base tools: Rust, a C compiler, Python 3 with pip, Node.js with npm, git.
//!
//! Each step installs what it needs by package name, pinned, below the target folder. Two cores need at most 40 minutes
//! for it; checks that take longer, or that measure, belong to `--full`.

use anyhow::Result;

use crate::step::step;
use crate::{
    agents, check, cluster, code, conformance, dist, lsp, metrics, newcomer, peers, seeds, sign_in,
    slow_starts, test, traces, ui, ui_app,
};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also run the checks that take long.
    #[arg(long)]
    full: bool,
}

pub(crate) fn ci(options: &Options) -> Result<()> {
    step("ci", || {
        step("check", check::check)?;
        step("test", test::test)?;
        step("seeds", || seeds::seeds(&seeds::Options::default()))?;
        step("conformance", || conformance::conformance(&conformance::Options::every_door()))?;
        step("conformance across the eras", || conformance::conformance(&conformance::Options::crossed()))?;
        step("conformance of servers that ask by era", || {
            conformance::conformance(&conformance::Options::asking_by_era())
        })?;
        step("conformance of skills", || conformance::conformance(&conformance::Options::skills()))?;
        step("conformance of sign-ins", || conformance::conformance(&conformance::Options::client_auth()))?;
        step("sign-ins", sign_in::sign_in)?;
        step("peers", peers::peers)?;
        step("cluster", || cluster::cluster(&cluster::Options::quick()))?;
        step("code search", code::code)?;
        step("language servers", lsp::lsp)?;
        step("ui app", || ui_app::ui_app(&ui_app::Options::default()))?;
        step("metrics", metrics::metrics)?;
        step("traces", traces::traces)?;
        step("dashboard", || ui::ui(&ui::Options::without_pictures()))?;
        step("newcomer", newcomer::newcomer)?;
        if options.full { full() } else { Ok(()) }
    })
}

/// What takes too long for every change.
fn full() -> Result<()> {
    step("ui app in a window", || ui_app::ui_app(&ui_app::Options::in_a_window()))?;
    step("pictures of the dashboard", || ui::ui(&ui::Options::default()))?;
    step("cluster, at length", || cluster::cluster(&cluster::Options::default()))?;
    step("figures of the cluster", || cluster::cluster(&cluster::Options::figures()))?;
    step("agents", agents::agents)?;
    step("slow starts", slow_starts::slow_starts)?;
    step("packages", || dist::dist(&dist::Options::checked()))
}
