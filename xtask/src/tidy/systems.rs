//! What only one system has is in files named after it, so that the rest builds everywhere: `unix.rs`,
//! `windows.rs`, and whatever is in folders of those names.
//!
//! Looks at code line by line. Tests may name what they like, and so may crates that are for one system.

use super::Findings;
use super::source::Source;

/// How what only one system has begins.
const FOREIGN: [&str; 7] = [
    "std::os::unix",
    "std::os::windows",
    "std::os::fd",
    "tokio::signal::unix",
    "tokio::signal::windows",
    "nix::",
    "rustix::",
];

/// Who may name it elsewhere. A path is a folder or a file without its extension.
const ALLOWED: &[(&str, &str)] = &[
    ("bench", "measures on Linux"),
    ("crates/toolyard-core/src/discovery/port", "one function of a few lines, under `cfg`"),
    (
        "crates/toolyard-core/src/discovery/watch/linux",
        "changes that Linux reports; its other half is `elsewhere.rs`",
    ),
    ("crates/toolyard-core/src/discovery/process", "one function of a few lines, under `cfg`"),
    ("crates/toolyard-testkit", "plays its parts on Unix"),
    ("packs/music", "is for Unix, as its jail is"),
    ("sdk/toolyard-jail", "is for Unix"),
    ("xtask", "runs on Unix"),
];

pub(super) fn check(sources: &[Source], findings: &mut Findings) {
    for source in sources.iter().filter(|source| !source.is_test() && !may_name(&source.path)) {
        for (line, name) in names(source) {
            findings.error(
                &format!("{}:{line}", source.path),
                &format!(
                    "`{name}` is not there on every system: put it into `unix.rs`, with a `windows.rs` beside it that offers the same"
                ),
            );
        }
    }
}

fn may_name(path: &str) -> bool {
    let is_of_one = path.split('/').any(|part| ["unix", "windows", "unix.rs", "windows.rs"].contains(&part));
    let is_allowed =
        |allowed: &str| path.strip_prefix(allowed).is_some_and(|rest| rest.starts_with('/') || rest == ".rs");
    is_of_one || ALLOWED.iter().any(|(allowed, _)| is_allowed(allowed))
}

fn names(source: &Source) -> Vec<(usize, &'static str)> {
    let lines = source.text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let code =
        lines.filter(|(line, text)| !text.trim_start().starts_with("//") && !source.is_test_line(*line));
    let named = |text: &str| FOREIGN.into_iter().find(|name| begins_in(text, name));
    code.filter_map(|(line, text)| named(text).map(|name| (line, name))).collect()
}

/// Whether it occurs, and not as the end of another name: `unix::` is one of our own modules.
fn begins_in(text: &str, name: &str) -> bool {
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, code: &str, expected: usize) {
        let source = Source::parse(path, format!("//! A file.\n{code}\n")).unwrap();
        let mut findings = Findings::default();
        super::check(&[source], &mut findings);
        assert_eq!(findings.errors.len(), expected, "{path}: {code}");
    }

    #[test]
    fn platform_names_are_allowed_only_in_platform_files() {
        let code = "use std::os::unix::fs::MetadataExt;\nfn f() { nix::unistd::setsid(); }";
        check("crates/toolyard/src/serve.rs", code, 2);
        check("sdk/toolyard-app/src/peer.rs", code, 2);
        check("crates/toolyard/src/system/unix.rs", code, 0);
        check("crates/toolyard-link/src/child/unix/ours.rs", code, 0);
        check("crates/toolyard/tests/cli/gateway.rs", code, 0);
        check("sdk/toolyard-jail/src/walk.rs", code, 0);
    }

    #[test]
    fn other_names_and_tests_are_left_alone() {
        check("crates/toolyard/src/a.rs", "pub use unix::{a, b};\nuse unix as here;", 0);
        check("crates/toolyard/src/a.rs", "// As std::os::unix has it.\nfn f() {}", 0);
        check("crates/toolyard/src/a.rs", "#[cfg(test)]\nmod tests { use nix::unistd::Uid; }", 0);
    }
}
