//! The two images of the `Containerfile`, built with buildah from Debian's packages: no registry of images is needed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::artefacts::VERSION;
use crate::{process, tools, workspace};

/// The release of Debian that the images are made of, and the name of the base.
const RELEASE: &str = "bookworm";
const BASE: &str = "localhost/toolyard-base";

pub(super) fn build() -> Result<()> {
    let buildah = tools::debian("buildah")?;
    let folder = workspace::target_directory()?.join("dist/image");
    place_uv(&folder)?;
    make_base(&buildah, &folder)?;
    for target in ["slim", "full"] {
        let mut build = run(&buildah);
        build.current_dir(workspace::root()).args(["build", "--build-arg", &format!("BASE={BASE}")]);
        build.args(["--target", target, "--tag", &format!("toolyard:{target}"), "."]);
        process::run(&mut build)?;
        attempt(&buildah, target)?;
    }
    Ok(())
}

/// Works without a user namespace and without overlay file systems, as in a container of CI.
fn run(buildah: &Path) -> Command {
    let mut command = Command::new(buildah);
    command.env("BUILDAH_ISOLATION", "chroot").env("STORAGE_DRIVER", "vfs");
    command
}

/// uv is not among Debian's packages, so its program comes from its wheel.
fn place_uv(folder: &Path) -> Result<()> {
    let python = tools::image_python()?;
    for name in ["uv", "uvx"] {
        fs::copy(python.with_file_name(name), folder.join(name)).with_context(|| format!("copy {name}"))?;
    }
    Ok(())
}

/// A small Debian, as an image.
fn make_base(buildah: &Path, folder: &Path) -> Result<()> {
    let mmdebstrap = tools::debian("mmdebstrap")?;
    let tar = folder.join("base.tar");
    let mut debian = Command::new(mmdebstrap);
    debian.args(["--quiet", "--variant=minbase", "--include=ca-certificates,tini", RELEASE]);
    process::run(debian.arg(&tar))?;
    let container = process::output(run(buildah).args(["from", "scratch"]))?;
    let container = container.trim();
    process::run(run(buildah).args(["add", "--quiet", container]).arg(&tar).arg("/"))?;
    process::run(run(buildah).args(["commit", "--quiet", "--rm", container, BASE]))?;
    fs::remove_file(tar).context("remove the base")
}

/// The program in the image names its version, and the programs that servers need are there.
fn attempt(buildah: &Path, target: &str) -> Result<()> {
    let container = process::output(run(buildah).args(["from", &format!("localhost/toolyard:{target}")]))?;
    let container = container.trim();
    let line = match target {
        "full" => "toolyard --version && node --version && npx --version && git --version && uvx --version",
        _ => "toolyard --version",
    };
    let printed = process::output(run(buildah).args(["run", container, "--", "sh", "-c", line]));
    process::run(run(buildah).args(["rm", container]))?;
    let printed = printed?;
    print!("{printed}");
    if !printed.starts_with(&format!("toolyard {VERSION}")) {
        bail!("the program in the image is another one: {printed}");
    }
    Ok(())
}
