//! `cargo xtask ui`: drives the dashboard in Chromium against the real gateway: flows, pictures, accessibility, keys,
//! hostile names, many tabs, a gateway that is killed.
//!
//! `--large` looks at the largest amounts instead: first paint, long tasks, and the echo of a gateway that is watched.
//!
//! Installs Debian's `chromium-headless-shell` and the fonts of `fonts-dejavu-core`, and the pinned npm packages of `xtask/ui/package.json`.
//! `--update` records the pictures in `xtask/ui/pictures` again; look at each of them. `--guide` also writes the pictures
//! of README and guide to `docs/pictures`.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::step::step;
use crate::workspace::Profile;
use crate::{process, tools, workspace};

#[derive(Args, Default)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Options {
    /// Record the pictures again.
    #[arg(long)]
    update: bool,
    /// Leave the pictures out: another version of the browser may draw them slightly differently.
    #[arg(long, conflicts_with = "update")]
    no_pictures: bool,
    /// Only ten thousand tools and a hundred thousand records, and what watching costs a call, with a release build.
    #[arg(long, conflicts_with_all = ["update", "no_pictures", "guide"])]
    large: bool,
    /// Write the pictures of README and guide, too.
    #[arg(long)]
    guide: bool,
}

impl Options {
    pub(crate) fn without_pictures() -> Self {
        Self { no_pictures: true, ..Self::default() }
    }
}

pub(crate) fn ui(options: &Options) -> Result<()> {
    let chromium = step("install Chromium", browser)?;
    let modules = step("install playwright-core and axe-core", || tools::npm_folder("ui"))?;
    let folder = workspace::root().join("xtask/ui");
    let mut node = Command::new("node");
    if options.large {
        let toolyard = workspace::build("toolyard", Profile::Release)?.join("toolyard");
        node.arg(folder.join("large.mjs")).arg(toolyard).arg(chromium).arg(modules);
        return process::run(&mut node).context("the dashboard is too slow, or makes calls slow");
    }
    let toolyard = workspace::build("toolyard", Profile::Dev)?.join("toolyard");
    node.arg(folder.join("run.mjs")).arg(toolyard).arg(chromium);
    node.arg(modules).arg(folder.join("pictures"));
    if options.update {
        node.arg("--update");
    }
    if options.no_pictures {
        node.arg("--no-pictures");
    }
    if options.guide {
        let pictures = workspace::root().join("docs/pictures");
        fs::create_dir_all(&pictures).context("make `docs/pictures`")?;
        node.arg("--guide").arg(pictures);
    }
    process::run(&mut node).context("the dashboard failed in the browser")
}

fn browser() -> Result<std::path::PathBuf> {
    // First, since it also brings the lists of packages up to date.
    let chromium = tools::debian("chromium-headless-shell")?;
    let fonts = std::path::Path::new("/usr/share/fonts/truetype/dejavu");
    if !fonts.is_dir() {
        process::run(Command::new("apt-get").args(["install", "--yes", "--quiet=2", "fonts-dejavu-core"]))?;
    }
    Ok(chromium)
}
