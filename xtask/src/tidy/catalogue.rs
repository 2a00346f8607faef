//! The messages of the libraries, for review: every sentence in their code, log lines and texts of errors included,
//! is a line of `xtask/messages/PACKAGE.txt`. A message that is new or changed fails until `cargo xtask tidy --bless`
//! has written it there, so that it is read in a diff.
//!
//! What the program itself prints needs more: it must occur in an expected output of a test (`messages`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result};

use super::Findings;
use super::messages::{Kind, sentences};
use super::source::Source;
use crate::workspace;

const FOLDER: &str = "xtask/messages";

/// The folders of packages whose messages reach people through answers, lists and the log.
const COVERED: &[&str] = &[
    "crates/toolyard-audit",
    "crates/toolyard-cluster",
    "crates/toolyard-core",
    "crates/toolyard-dashboard",
    "crates/toolyard-dial",
    "crates/toolyard-hooks",
    "crates/toolyard-host",
    "crates/toolyard-limits",
    "crates/toolyard-link",
    "crates/toolyard-lsp",
    "crates/toolyard-metrics",
    "crates/toolyard-model",
    "crates/toolyard-proto",
    "crates/toolyard-oauth",
    "crates/toolyard-openapi",
    "crates/toolyard-policy",
    "crates/toolyard-rank",
    "crates/toolyard-secrets",
    "crates/toolyard-serve",
    "crates/toolyard-traces",
    "packs/",
    "sdk/",
];

pub(super) fn check(sources: &[Source], findings: &mut Findings) {
    let messages = collect(sources);
    for (package, messages) in &messages {
        let path = format!("{FOLDER}/{package}.txt");
        let text = fs::read_to_string(workspace::root().join(&path)).unwrap_or_default();
        let reviewed: BTreeSet<&str> = text.lines().collect();
        for message in messages.iter().filter(|message| !reviewed.contains(message.as_str())) {
            findings
                .error(&path, &format!("lacks `{message}`: run `cargo xtask tidy --bless`, read the diff"));
        }
        for line in reviewed.iter().filter(|line| !messages.contains(**line)) {
            findings.error(
                &path,
                &format!("`{line}` is not in the code any more: run `cargo xtask tidy --bless`"),
            );
        }
    }
}

/// Writes the catalogues from the code.
pub(super) fn bless(sources: &[Source]) -> Result<()> {
    let folder = workspace::root().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("clear `{FOLDER}`"))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("make `{FOLDER}`"))?;
    for (package, messages) in collect(sources) {
        let text = messages.into_iter().collect::<Vec<_>>().join("\n") + "\n";
        fs::write(folder.join(format!("{package}.txt")), text)
            .with_context(|| format!("write `{package}.txt`"))?;
    }
    Ok(())
}

/// The messages of each covered package, one line each.
fn collect(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let Some(package) = package(&source.path) else { continue };
        let lines = sentences(source, Kind::All).into_iter().map(|(_, text)| line(&text));
        packages.entry(package).or_default().extend(lines);
    }
    packages.retain(|_, messages| !messages.is_empty());
    packages
}

fn package(path: &str) -> Option<String> {
    let is_covered = COVERED.iter().any(|folder| path.starts_with(folder));
    let mut parts = path.split('/');
    let (top, package, source) = (parts.next()?, parts.next()?, parts.next()?);
    let name = if top == "packs" { format!("pack-{package}") } else { package.to_owned() };
    (is_covered && source == "src").then_some(name)
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_errors_and_log_lines_of_a_package_are_collected() {
        let code = "//! A file.\n#[derive(Error)] enum E { #[error(\"it is gone\")] Gone }\n\
                    #[doc = \"not a message\"] fn f() { tracing::warn!(\"the link is lost\"); x(\"one\\n two\"); }\n";
        let parse = |path: &str| Source::parse(path, code.to_owned()).unwrap();
        let paths = ["packs/music/src/a.rs", "packs/music/tests/a.rs", "crates/toolyard/src/a.rs"];
        let found = collect(&paths.map(parse));
        let lines: Vec<&str> = found["pack-music"].iter().map(String::as_str).collect();
        assert_eq!((found.len(), lines), (1, vec!["it is gone", "one two", "the link is lost"]));
    }
}
