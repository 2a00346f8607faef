//! `cargo xtask dist`: what users install, made from one build: a tarball, a Debian package, npm packages and a Python
//! wheel, each with the program inside, and their checksums, in `target/dist`.
//!
//! The program is linked against glibc 2.17 with zig as linker, so that it also starts on old systems. `--check` installs
//! each file into an empty prefix, without a network, and uses it.

mod artefacts;
mod build;
mod c_parts;
mod check;
mod image;
mod parts;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::step::step;
use crate::{process, workspace};

#[derive(Args)]
pub(crate) struct Options {
    /// Install each file into an empty prefix and use it; also `cargo install` from this clone.
    #[arg(long)]
    check: bool,
    /// Pack this program instead of building one; its size and what it needs are not checked.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Do not build the program without packs, whose size is checked, too.
    #[arg(long)]
    no_lean: bool,
    /// Also build the two images with buildah.
    #[arg(long)]
    images: bool,
}

impl Options {
    /// Everything but the images, installed and used.
    pub(crate) fn checked() -> Self {
        Self { check: true, binary: None, no_lean: false, images: false }
    }
}

/// The most that the program may have, with all packs and with none.
const MOST_FULL: u64 = 60_000_000;
const MOST_LEAN: u64 = 20_000_000;

pub(crate) fn dist(options: &Options) -> Result<()> {
    let folder = workspace::target_directory()?.join("dist");
    let (program, too_large) = match &options.binary {
        Some(program) => (program.clone(), Vec::new()),
        None => built(options)?,
    };
    let version = match &options.binary {
        Some(program) => process::output(Command::new(program).arg("--version"))?.trim().to_owned(),
        None => check::release_version()?,
    };
    let artefacts = step("pack", || artefacts::make(&program, &folder))?;
    for file in &artefacts.files() {
        println!("{:>11} {}", parts::megabytes(std::fs::metadata(file)?.len()), file.display());
    }
    if options.check {
        step("install and try", || check::check(&artefacts, &version))?;
    }
    if options.images {
        step("images", || image::build(&version))?;
    }
    // The files can be used all the same, so this comes last.
    if too_large.is_empty() { Ok(()) } else { bail!("{}", too_large.join("; ")) }
}

/// The tarball with this program inside, in an empty folder.
pub(crate) fn tarball_of(program: &Path, folder: &Path) -> Result<PathBuf> {
    artefacts::tarball_alone(program, folder)
}

/// Builds the program, and the one without packs, and checks both. Returns which of them are too large, too.
fn built(options: &Options) -> Result<(PathBuf, Vec<String>)> {
    let mut too_large = Vec::new();
    let tools = step("install zig", build::tools)?;
    if !options.no_lean {
        let lean = step("build without packs", || build::program(&tools, build::Packs::None))?;
        too_large.append(&mut step("size without packs", || excess(&lean, MOST_LEAN))?);
    }
    let full = step("build", || build::program(&tools, build::Packs::All))?;
    too_large.append(&mut step("size", || excess(&full, MOST_FULL))?);
    step("glibc", || build::check_glibc(&full.stripped))?;
    Ok((full.stripped, too_large))
}

/// Prints the size of a program and its largest parts. Returns what is larger than it may be.
fn excess(program: &build::Program, most: u64) -> Result<Vec<String>> {
    let size = std::fs::metadata(&program.stripped)?.len();
    println!("{} of at most {}", parts::megabytes(size), parts::megabytes(most));
    let mut wrong: Vec<String> = parts::print(program)?.into_iter().collect();
    let name = program.stripped.display();
    let (size_text, most_text) = (parts::megabytes(size), parts::megabytes(most));
    if size > most {
        wrong.push(format!("`{name}` has {size_text}, and at most {most_text} are allowed"));
    }
    Ok(wrong)
}
