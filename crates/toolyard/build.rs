//! Names the commit in `toolyard --version`. Debug builds do not: they would be built again after every commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=TOOLYARD_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let given = std::env::var("TOOLYARD_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| is_release.then(commit).flatten());
    let full = commit.map_or_else(|| version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=TOOLYARD_VERSION={full}");
}

/// The commit that is checked out, if this is a clone with its history.
fn commit() -> Option<String> {
    let head = git(&["rev-parse", "--git-path", "HEAD"])?;
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let branch = branch.and_then(|branch| git(&["rev-parse", "--git-path", &branch]));
    let packed = git(&["rev-parse", "--git-path", "packed-refs"]);
    // A file that is named and missing would make every build run this again.
    for file in [Some(head), branch, packed].into_iter().flatten().filter(|file| Path::new(file).exists()) {
        println!("cargo::rerun-if-changed={file}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
