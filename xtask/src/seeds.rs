//! `cargo xtask seeds`: checks `docs/seeds.md`, the table of what Toolyard replaces and the tests that show it.
//!
//! Every row is present, names at least one test or gives a reason, and every named test exists. With `--fix`, the
//! name of a test that moved to another module or crate is rewritten.

mod table;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::process;
use crate::workspace::{self, Detail};
use table::Table;

const FILE: &str = "docs/seeds.md";

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Rewrite the names of tests that moved to another module or crate.
    #[arg(long)]
    fix: bool,
}

pub(crate) fn seeds(options: &Options) -> Result<()> {
    let path = workspace::root().join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("read `{FILE}`"))?;
    let tests = tests()?;
    let text = if options.fix { fixed(&text, &tests) } else { text };
    if options.fix {
        fs::write(&path, &text).with_context(|| format!("write `{FILE}`"))?;
    }
    let table = Table::parse(&text)?;
    let mut errors = table.incomplete();
    for (row, test) in table.missing(&tests) {
        errors.push(format!("{row}: there is no test `{test}`{}", hint(test, &tests)));
    }
    println!("{}", table.summary());
    if !errors.is_empty() {
        bail!("{FILE} has {} errors:\n{}", errors.len(), errors.join("\n"));
    }
    Ok(())
}

/// Moves the names in backquotes that belong to no test, but whose function name belongs to exactly one.
fn fixed(text: &str, tests: &BTreeSet<String>) -> String {
    let mut fixed = text.to_owned();
    for name in table::names(text).filter(|name| !tests.contains(*name)) {
        if let [only] = same_function(name, tests).as_slice() {
            fixed = fixed.replace(&format!("`{name}`"), &format!("`{only}`"));
        }
    }
    fixed
}

fn hint(name: &str, tests: &BTreeSet<String>) -> String {
    match same_function(name, tests).as_slice() {
        [] => String::new(),
        found => format!(", but `{}`; run `cargo xtask seeds --fix`", found.join("`, `")),
    }
}

/// The tests whose function has the same name.
fn same_function<'a>(name: &str, tests: &'a BTreeSet<String>) -> Vec<&'a str> {
    let function = function(name);
    tests.iter().map(String::as_str).filter(|test| self::function(test) == function).collect()
}

fn function(name: &str) -> &str {
    name.rsplit([':', ' ']).next().unwrap_or(name)
}

/// One line of `cargo test --no-run --message-format json`.
#[derive(Deserialize)]
struct Artifact {
    package_id: Option<String>,
    target: Option<workspace::Target>,
    executable: Option<String>,
    profile: Option<BuildProfile>,
}

#[derive(Deserialize)]
struct BuildProfile {
    test: bool,
}

/// All tests of the workspace, named as `cargo nextest` names them: program, space, test.
fn tests() -> Result<BTreeSet<String>> {
    let metadata = workspace::metadata(Detail::Workspace)?;
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--workspace", "--no-run", "--quiet", "--message-format", "json"]);
    let mut tests = BTreeSet::new();
    for line in process::output(&mut cargo)?.lines().filter(|line| line.starts_with('{')) {
        let artifact: Artifact = serde_json::from_str(line).context("read a message of cargo")?;
        let (Some(id), Some(target), Some(executable)) =
            (artifact.package_id, artifact.target, artifact.executable)
        else {
            continue;
        };
        if !artifact.profile.is_some_and(|profile| profile.test) {
            continue;
        }
        let package = metadata.packages.iter().find(|package| package.id == id);
        let package = package.with_context(|| format!("find the package `{id}`"))?;
        let program = program_name(&package.name, &target);
        let listed = process::output(Command::new(&executable).args(["--list", "--format", "terse"]))?;
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        tests.extend(names.map(|name| format!("{program} {name}")));
    }
    Ok(tests)
}

fn program_name(package: &str, target: &workspace::Target) -> String {
    match target.kind.first().map_or("lib", String::as_str) {
        "test" => format!("{package}::{}", target.name),
        kind @ ("bin" | "example" | "bench") => format!("{package}::{kind}/{}", target.name),
        _ => package.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_moved_is_renamed_and_an_ambiguous_one_is_not() {
        let tests = ["a::new x::was_moved", "a::new x::found_twice", "b::new y::found_twice"]
            .map(str::to_owned)
            .into();
        let text = "| 1 | claim | `a::old was_moved`<br>`a::old found_twice` |";
        assert_eq!(fixed(text, &tests), "| 1 | claim | `a::new x::was_moved`<br>`a::old found_twice` |");
        assert!(
            hint("a::old found_twice", &tests).contains("`a::new x::found_twice`, `b::new y::found_twice`")
        );
    }
}
