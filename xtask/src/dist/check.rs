//! Installs each file into an empty prefix, in a network namespace of its own where the user may make one, and asks the program for its first answer.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::artefacts::{Artefacts, VERSION, machine};
use crate::step::step;
use crate::{offline, process, workspace};

/// How long the program may take for its first answer.
const FIRST_ANSWER: Duration = Duration::from_mins(1);

/// `version` is what `toolyard --version` must print.
pub(super) fn check(artefacts: &Artefacts, version: &str) -> Result<()> {
    let prefix = tempfile::tempdir().context("make an empty prefix")?;
    let at = |name: &str| prefix.path().join(name);
    step("checksums", || checksums(artefacts))?;
    step("tarball", || tarball(artefacts, &at("tarball"), version))?;
    step("Debian package", || debian(artefacts, &at("debian"), version))?;
    step("npm", || npm(artefacts, &at("npm"), version))?;
    step("wheel", || wheel(artefacts, &at("wheel"), version))?;
    step("cargo install", || cargo_install(&at("cargo")))
}

fn checksums(artefacts: &Artefacts) -> Result<()> {
    let folder = artefacts.checksums.parent().context("find the folder of the checksums")?;
    let mut sum = Command::new("sha256sum");
    process::run(sum.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(folder))
}

fn tarball(artefacts: &Artefacts, prefix: &Path, version: &str) -> Result<()> {
    fs::create_dir_all(prefix)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"]).arg(&artefacts.tarball);
    tar.arg("--directory").arg(prefix);
    process::run(&mut offline::if_possible(tar))?;
    try_program(&prefix.join("toolyard"), prefix, version)
}

/// Installed and purged with a package database of its own; nothing may be left.
fn debian(artefacts: &Artefacts, prefix: &Path, version: &str) -> Result<()> {
    for folder in ["root", "database/info", "database/updates"] {
        fs::create_dir_all(prefix.join(folder))?;
    }
    for name in ["status", "available"] {
        fs::write(prefix.join("database").join(name), "")?;
    }
    let dpkg = || {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--instdir={}", prefix.join("root").display()));
        dpkg.arg(format!("--admindir={}", prefix.join("database").display()));
        dpkg.args(["--force-not-root", "--force-depends", "--force-script-chrootless"]);
        dpkg.arg("--log=/dev/null");
        dpkg
    };
    let mut install = dpkg();
    install.arg("--install").arg(&artefacts.debian);
    process::output(&mut offline::if_possible(install))?;
    try_program(&prefix.join("root/usr/bin/toolyard"), prefix, version)?;
    process::output(dpkg().args(["--purge", "toolyard"]))?;
    let left: Vec<PathBuf> = files_below(&prefix.join("root"))?;
    if !left.is_empty() {
        bail!("the purged package has left {left:?}");
    }
    Ok(())
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { all.extend(files_below(&path)?) } else { all.push(path) }
    }
    Ok(all)
}

fn npm(artefacts: &Artefacts, prefix: &Path, version: &str) -> Result<()> {
    fs::create_dir_all(prefix)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--global", "--offline", "--ignore-scripts", "--no-audit", "--no-fund"]);
    npm.arg("--loglevel=error").arg("--prefix").arg(prefix).args(&artefacts.npm);
    npm.env("npm_config_cache", prefix.join("cache"));
    process::run(&mut offline::if_possible(npm))?;
    let own = prefix.join(format!("lib/node_modules/toolyard-linux-{}", machine()?.npm));
    if !own.join("bin/toolyard").is_file() {
        bail!("npm has not installed the package with the program");
    }
    try_program(&prefix.join("bin/toolyard"), prefix, version)
}

fn wheel(artefacts: &Artefacts, prefix: &Path, version: &str) -> Result<()> {
    process::run(Command::new("python3").args(["-m", "venv"]).arg(prefix))?;
    let mut pip = Command::new(prefix.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]);
    pip.arg(&artefacts.wheel);
    process::run(&mut offline::if_possible(pip))?;
    try_program(&prefix.join("bin/toolyard"), prefix, version)
}

/// As a user does in a clone, but without optimisation, so that what is built here already serves.
fn cargo_install(prefix: &Path) -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args([
        "install",
        "--path",
        "crates/toolyard",
        "--locked",
        "--offline",
        "--debug",
        "--quiet",
        "--root",
    ]);
    cargo.arg(prefix).env("CARGO_TARGET_DIR", workspace::target_directory()?);
    process::run(&mut offline::if_possible(cargo))?;
    // Debug builds do not name their commit.
    try_program(&prefix.join("bin/toolyard"), prefix, &format!("toolyard {VERSION}"))
}

/// The installed program names its version and commit, and answers a client in a home that has no config.
fn try_program(program: &Path, prefix: &Path, version: &str) -> Result<()> {
    let home = prefix.join("home");
    fs::create_dir_all(&home)?;
    let printed = process::output(prepared(&mut Command::new(program), &home)?.arg("--version"))?;
    check_version(&printed, version)?;
    let began = Instant::now();
    let answer = first_answer(program, &home)?;
    println!("first answer after {} ms", began.elapsed().as_millis());
    if !answer.contains("dev__echo") {
        bail!("the installed program lists no tools: {answer}");
    }
    Ok(())
}

/// What `toolyard --version` prints for a release build of what is checked out: version and commit.
pub(super) fn release_version() -> Result<String> {
    let mut git = Command::new("git");
    git.current_dir(workspace::root()).args(["rev-parse", "--short=12", "HEAD"]);
    Ok(format!("toolyard {VERSION} ({})", process::output(&mut git)?.trim()))
}

pub(super) fn check_version(printed: &str, expected: &str) -> Result<()> {
    println!("{}", printed.trim());
    if printed.trim() != expected {
        bail!("`toolyard --version` printed {:?}, not {expected:?}", printed.trim());
    }
    Ok(())
}

/// Only what a fresh account has.
fn prepared<'a>(command: &'a mut Command, home: &Path) -> Result<&'a mut Command> {
    let mut path: Vec<PathBuf> = vec!["/usr/bin".into(), "/bin".into()];
    path.extend(process::find("node").and_then(|node| node.parent().map(Path::to_owned)));
    let path: OsString = std::env::join_paths(path)?;
    Ok(command.env_clear().env("HOME", home).env("PATH", path).current_dir(home))
}

/// The list of tools, as a client that starts `toolyard stdio` gets it.
fn first_answer(program: &Path, home: &Path) -> Result<String> {
    let mut command = Command::new("timeout");
    prepared(&mut command, home)?.arg(FIRST_ANSWER.as_secs().to_string()).arg(program).arg("stdio");
    ask(&mut command)
}

/// What a command prints for a client that asks it for its tools over stdio.
pub(super) fn ask(command: &mut Command) -> Result<String> {
    let client = r#"{"name":"dist","version":"1"}"#;
    let asked = format!(
        "{}\n{}\n{}\n",
        format_args!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{client}}}}}"#
        ),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
    );
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start the program")?;
    child.stdin.take().context("take the stdin of a child")?.write_all(asked.as_bytes())?;
    let output = child.wait_with_output().context("wait for the program")?;
    if !output.status.success() {
        bail!("`toolyard stdio` failed ({})", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_another_commit_or_of_none_is_refused() {
        let expected = release_version().unwrap();
        check_version(&format!("{expected}\n"), &expected).unwrap();
        check_version(&format!("toolyard {VERSION} (0123456789ab)\n"), &expected).unwrap_err();
        check_version(&format!("toolyard {VERSION}\n"), &expected).unwrap_err();
    }
}
