//! `cargo xtask search`: how well questions find code that no model has seen.
//!
//! Fetches the packages of `bench/search/packages.txt`, takes the first line of each doc comment as a question, and
//! prints a table for each language. With clones of the repositories in `bench/search/repositories.txt`, subjects of
//! commits are asked for the files that they changed. Takes some minutes; with `MiniLM` half an hour.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::Background;
use crate::step::step;
use crate::{process, tools, workspace};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// A folder with bare clones, each as `OWNER+NAME/repo`: also ask for the files that commits changed.
    #[arg(long, value_name = "FOLDER")]
    commits: Option<PathBuf>,
    /// Also measure all-MiniLM-L6-v2, served by a local service.
    #[arg(long)]
    minilm: bool,
}

pub(crate) fn search(options: &Options) -> Result<()> {
    let folder = workspace::tools_directory()?.join("search");
    std::fs::create_dir_all(&folder).context("make a folder for the sets")?;
    let root = workspace::root();
    let mut sets = ["py", "rs", "js"].map(|language| folder.join(format!("{language}.jsonl"))).to_vec();
    step("fetch the packages and make the sets", || {
        let mut python = Command::new("python3");
        python.arg(root.join("bench/search/sets.py")).arg(root.join("bench/search/packages.txt"));
        python.arg(root.join("packs/code/model/train")).arg(&folder);
        process::run(&mut python)
    })?;
    if let Some(clones) = &options.commits {
        sets.extend(step("read the commits", || commits(clones, &folder.join("commits")))?);
    }
    let mut cargo = workspace::cargo();
    cargo.args(["run", "--release", "--package", "toolyard-pack-code", "--features", "measure"]);
    cargo.args(["--example", "measure", "--"]);
    let service = if options.minilm { Some(minilm(&folder)?) } else { None };
    if let Some((_, address)) = &service {
        cargo.args(["--minilm", &format!("{address}/v1")]);
    }
    process::run(cargo.args(sets))
}

/// Fails if a list of packages has one that the models were trained on.
#[cfg(test)]
fn check_packages(list: &Path) -> Result<()> {
    let root = workspace::root();
    let mut python = Command::new("python3");
    python.arg(root.join("bench/search/sets.py")).arg(list);
    process::run(python.arg(root.join("packs/code/model/train")).arg("--check"))
}

/// Makes a set of each repository.
fn commits(clones: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder)?;
    let root = workspace::root();
    let list = root.join("bench/search/repositories.txt");
    let mut python = Command::new("python3");
    python.arg(root.join("bench/search/commits.py")).arg(&list);
    process::run(python.arg(root.join("packs/code/model/train")).arg(clones).arg(folder))?;
    let list = std::fs::read_to_string(list)?;
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    Ok(names.map(|name| folder.join(format!("{}.json", name.replace('/', "+")))).collect())
}

/// Starts the service, and returns its address.
fn minilm(folder: &Path) -> Result<(Background, String)> {
    let (python, model) = tools::minilm()?;
    let mut command = Command::new(python);
    command.arg(workspace::root().join("bench/search/minilm.py")).arg(model);
    Background::serve("MiniLM", &mut command, &folder.join("minilm.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_the_models_were_trained_on_are_refused() {
        check_packages(&workspace::root().join("bench/search/packages.txt")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for line in
            ["py cirq-core 1.7.0", "rs salvo-core 1.1.0", "js @cesium/engine 26.3.0", "rs wasmtime 48.0.8"]
        {
            let list = folder.path().join("packages.txt");
            std::fs::write(&list, format!("# a list\npy docutils 0.23\n{line}\n")).unwrap();
            assert!(check_packages(&list).is_err(), "{line}");
        }
    }
}
