//! The two images of the `Containerfile`, built with buildah where it works.

use std::process::Command;

use anyhow::Result;

use crate::{process, tools, workspace};

pub(super) fn build() -> Result<()> {
    let buildah = tools::debian("buildah")?;
    for target in ["slim", "full"] {
        let mut build = Command::new(&buildah);
        build.current_dir(workspace::root());
        build.args(["build", "--target", target, "--tag", &format!("toolyard:{target}"), "."]);
        process::run(&mut build)?;
    }
    Ok(())
}
