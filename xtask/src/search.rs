//! `cargo xtask search`: how well questions find functions of published packages that no model has seen.
//!
//! Fetches the packages of `bench/search/packages.txt`, takes the first line of each doc comment as a question, and
//! prints a table for each language. Takes some minutes.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::step::step;
use crate::{process, workspace};

pub(crate) fn search() -> Result<()> {
    let folder = workspace::tools_directory()?.join("search");
    std::fs::create_dir_all(&folder).context("make a folder for the sets")?;
    let root = workspace::root();
    step("fetch the packages and make the sets", || {
        let mut python = Command::new("python3");
        python.arg(root.join("bench/search/sets.py")).arg(root.join("bench/search/packages.txt"));
        python.arg(root.join("packs/code/model/train")).arg(&folder);
        process::run(&mut python)
    })?;
    let mut cargo = workspace::cargo();
    cargo.args(["run", "--release", "--package", "toolyard-pack-code", "--features", "measure"]);
    cargo.args(["--example", "measure", "--"]);
    cargo.args(["py", "rs", "js"].map(|language| folder.join(format!("{language}.jsonl"))));
    process::run(&mut cargo)
}
