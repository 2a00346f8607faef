//! The testkit's fixture as a program of its own.
//!
//! Cargo builds programs only for the tests of their own package, so it is asked here to build this one; if
//! that has been done, it only says where it is.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::gateway::Reach;
use super::program::Program;

/// The program.
pub(crate) fn fixture() -> String {
    static FIXTURE: OnceLock<PathBuf> = OnceLock::new();
    FIXTURE.get_or_init(build).to_str().expect("the path of the fixture is text").to_owned()
}

/// The fixture behind HTTP, speaking the eras that `era` names: `legacy`, `modern` or `both`.
pub(crate) fn serve_fixture(era: &str) -> (Program, Reach) {
    let (program, origin) = serve_fixture_at(&["--listen", "127.0.0.1:0"], era);
    (program, Reach::Url(format!("{origin}/mcp")))
}

/// The fixture behind a door that `arguments` open, speaking the eras that `era` names; gives its origin.
pub(crate) fn serve_fixture_at(arguments: &[&str], era: &str) -> (Program, String) {
    Program::serve(Command::new(fixture()).args(arguments).args(["--era", era]))
}

/// The fixture as a child process.
pub(crate) fn fixture_child(era: &str) -> Reach {
    Reach::Child([fixture().as_str(), "--stdio", "--era", era].map(str::to_owned).to_vec())
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--package", "toolyard-testkit", "--bin", "fixture"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // What cargo says of this package is not meant for the others: build scripts would run again each time.
    let of_this_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_this_package)) {
        command.env_remove(name);
    }
    let command = command.current_dir(env!("CARGO_MANIFEST_DIR")).stderr(Stdio::inherit());
    let output = command.output().expect("run cargo");
    assert!(output.status.success(), "cargo could not build the fixture");
    let executable = |line: &str| {
        let artifact: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(artifact["executable"].as_str()?))
    };
    let said = String::from_utf8(output.stdout).expect("cargo speaks UTF-8");
    said.lines().find_map(executable).expect("cargo says where the fixture is")
}
