//! `cargo xtask sign-in`: sign-ins with a real authorization server (npm `oidc-provider`) and Chromium as the user, at a
//! hosted server and at a gateway for a team behind nginx, as `docs/guide/team-gateway.md` sets it up.
//!
//! Installs Debian's `chromium-headless-shell`, nginx, and the pinned npm packages of `xtask/sign-in/package.json`.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::step::step;
use crate::workspace::Profile;
use crate::{process, tools, workspace};

pub(crate) fn sign_in() -> Result<()> {
    let chromium = step("install Chromium", || tools::debian("chromium-headless-shell"))?;
    let nginx = step("install nginx", tools::nginx)?;
    tools::debian("openssl")?;
    let node = step("install Node.js 22", tools::npm)?.node;
    let modules = step("install oidc-provider and playwright-core", || tools::npm_folder("sign-in"))?;
    let toolyard = workspace::build("toolyard", Profile::Dev)?.join("toolyard");
    let folder = workspace::root().join("xtask/sign-in");
    let mut command = Command::new(node);
    command.arg(folder.join("run.mjs")).arg(toolyard).arg(chromium).arg(nginx).arg(modules);
    command.arg(workspace::root().join("docs/guide/team-gateway.md"));
    process::run(&mut command).context("a sign-in failed")
}
