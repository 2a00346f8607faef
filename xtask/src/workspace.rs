//! Where things are in this repository, and what `cargo metadata` reports about it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::process;

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// The cargo that runs us, in the root of the repository.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    without_package(&mut cargo);
    cargo
}

/// Runs a program without the variables that cargo set for this package. They are not meant for the packages that are
/// built: their build scripts would run again, and everything after them, whenever cargo is called from here and by
/// hand in turn.
pub(crate) fn without_package(command: &mut Command) -> &mut Command {
    let of_this_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_this_package)) {
        command.env_remove(name);
    }
    command
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Dev,
    Release,
}

/// Builds all programs of a package and returns the folder they are in.
pub(crate) fn build(package: &str, profile: Profile) -> Result<PathBuf> {
    build_with(package, profile, &[])
}

/// The same with features.
pub(crate) fn build_with(package: &str, profile: Profile, features: &[&str]) -> Result<PathBuf> {
    let mut cargo = cargo();
    cargo.args(["build", "--package", package, "--bins"]);
    cargo.args(features.iter().flat_map(|feature| ["--features", feature]));
    if profile == Profile::Release {
        cargo.arg("--release");
    }
    process::run(&mut cargo)?;
    Ok(target_directory()?.join(match profile {
        Profile::Dev => "debug",
        Profile::Release => "release",
    }))
}

pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(metadata(Detail::Workspace)?.target_directory)
}

/// Where everything that is installed for the checks lives. Never committed, kept between runs.
pub(crate) fn tools_directory() -> Result<PathBuf> {
    Ok(target_directory()?.join("ci-tools"))
}

/// Files of the repository, committed or about to be, relative to the root.
pub(crate) fn files() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]);
    let listed = process::output(&mut git)?;
    let present = |path: &&str| root().join(path).is_file();
    Ok(listed.lines().filter(present).map(str::to_owned).collect())
}

#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) resolve: Option<Resolve>,
    pub(crate) target_directory: PathBuf,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Nothing for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) deps: Vec<Edge>,
}

#[derive(Deserialize)]
pub(crate) struct Edge {
    pub(crate) pkg: String,
    pub(crate) dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
pub(crate) struct EdgeKind {
    pub(crate) kind: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Only the packages of the workspace.
    Workspace,
    /// The whole tree of dependencies as well.
    Everything,
}

pub(crate) fn metadata(detail: Detail) -> Result<Metadata> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--format-version", "1"]);
    if detail == Detail::Workspace {
        cargo.arg("--no-deps");
    }
    serde_json::from_str(&process::output(&mut cargo)?).context("read the output of `cargo metadata`")
}

/// Fails with a hint if a package does not have the target that a command needs.
pub(crate) fn require_target(package: &str, kind: &str, target: &str) -> Result<()> {
    let metadata = metadata(Detail::Workspace)?;
    let found = metadata
        .packages
        .iter()
        .filter(|candidate| candidate.name == package)
        .flat_map(|candidate| &candidate.targets)
        .any(|candidate| candidate.name == target && candidate.kind.iter().any(|name| name == kind));
    if !found {
        bail!("package `{package}` has no {kind} target `{target}`, which this command runs");
    }
    Ok(())
}
