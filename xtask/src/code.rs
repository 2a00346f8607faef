//! `cargo xtask code`: the search and rewrite tools of the code pack against ripgrep, fd and ast-grep, the tests of what
//! measures searches, and a build with all grammars, which takes half a minute of two cores more than one with those
//! that are built in.
//!
//! Installs ast-grep as pinned in `xtask/pins/code`, and ripgrep and fd as Debian has them, if they are missing.

use anyhow::Result;

use crate::step::step;
use crate::{process, tools, workspace};

pub(crate) fn code() -> Result<()> {
    let python = step("install ast-grep", tools::code_python)?;
    let rg = step("install ripgrep", || tools::debian_package("rg", "ripgrep"))?;
    let fd = step("install fd", || match process::find("fd") {
        Some(found) => Ok(found),
        None => tools::debian_package("fdfind", "fd-find"),
    })?;
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--package", "toolyard-pack-code", "--test", "equal", "--", "--ignored"]);
    cargo.env("TOOLYARD_CODE_AST_GREP", python.join("ast-grep"));
    cargo.env("TOOLYARD_CODE_RG", rg).env("TOOLYARD_CODE_FD", fd);
    process::run(&mut cargo)?;
    // What `cargo xtask search` runs is behind a feature, and takes minutes, or half an hour with MiniLM.
    step("test what measures searches", || {
        let mut cargo = workspace::cargo();
        cargo.args(["test", "--package", "toolyard-pack-code", "--features", "measure"]);
        process::run(cargo.args(["--lib", "measure::"]))
    })?;
    step("build with all grammars", || {
        let mut cargo = workspace::cargo();
        cargo.args(["check", "--package", "toolyard-pack-code", "--features", "all-grammars"]);
        process::run(&mut cargo)
    })
}
