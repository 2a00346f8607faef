//! Programs of other packages, for tests.
//!
//! Cargo builds programs only for the tests of their own package, so this module asks it to build one; if that has
//! been done, it only returns the path.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A program of the testkit.
pub(crate) fn build(name: &str) -> PathBuf {
    build_target("toolyard-testkit", ["--bin", name])
}

/// `--bin NAME` or `--example NAME` of a package.
pub(crate) fn build_target(package: &str, target: [&str; 2]) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--package", package]).args(target);
    command.args(["--message-format", "json-render-diagnostics"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // Cargo's variables about this package would make build scripts of others run again each time.
    let of_this_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_this_package)) {
        command.env_remove(name);
    }
    let command = command.current_dir(env!("CARGO_MANIFEST_DIR")).stderr(Stdio::inherit());
    let output = command.output().expect("run cargo");
    assert!(output.status.success(), "cargo could not build {}", target[1]);
    let executable = |line: &str| {
        let artifact: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(artifact["executable"].as_str()?))
    };
    let printed = String::from_utf8(output.stdout).expect("cargo speaks UTF-8");
    printed.lines().find_map(executable).expect("cargo prints the path")
}
