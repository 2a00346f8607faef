//! Words that may not come back: comments, strings, names and documents are written in plain technical English.
//!
//! Each folder has a budget in `xtask/words-budget.txt`, the number of such words that are still there. It may only
//! shrink: more is an error, less is a warning until `cargo xtask tidy --shrink` has written it down. A folder without
//! a line has no budget. Words are compared without case, and identifiers are taken apart: `is_told`, `ToldBy`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Findings;
use crate::workspace;

/// A word or a phrase, and what to write instead.
const WORDS: &[(&str, &str)] = &[
    ("whoever", "name the client, the caller, the program"),
    ("whomever", "name the client, the caller, the program"),
    ("whom", "name the client, the caller, the program"),
    ("nobody", "no client, no process, no other user"),
    ("somebody", "a client, another process, another user"),
    ("anew", "again"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("seldom", "rarely"),
    ("stands", "is"),
    ("stood", "was"),
    ("hear", "receive"),
    ("hears", "receives"),
    ("heard", "received"),
    ("tells", "reports, returns"),
    ("told", "reported, returned"),
    ("says", "reports, returns, states"),
    ("said", "reported, returned, printed"),
    ("classic", "legacy"),
    ("older client", "legacy client"),
    ("older clients", "legacy clients"),
    ("older server", "legacy server"),
    ("older servers", "legacy servers"),
    ("older upstream", "legacy upstream"),
    ("older upstreams", "legacy upstreams"),
    ("older kind", "legacy"),
    ("older era", "legacy era"),
    ("older form", "legacy form"),
    ("older ones", "legacy ones"),
    ("oldest transport", "HTTP+SSE"),
    ("oldest kind", "HTTP+SSE"),
    ("oldest form", "HTTP+SSE"),
    ("anybody", "every client, another user"),
    ("everybody", "every client, all users"),
    ("became of", "the result of, the state of"),
    ("nothing called", "there is no"),
    ("knows no", "does not support, has no"),
    ("goes away", "ends, disconnects, is removed"),
    ("went away", "ended, disconnected, was removed"),
    ("in vain", "without success"),
    ("for ever", "indefinitely; or state what ends it"),
    ("last words", "stderr output"),
    ("and its kin", "name them"),
    ("changed its mind", "requires something else"),
    ("sign of life", "a message, a ping, a renewed lease; timed out without it"),
    ("signs of life", "messages, pings, renewed leases"),
    ("keepsake", "saved state"),
    ("recalled", "restored"),
    ("is there twice", "duplicate"),
    ("is no", "is not a"),
];

/// Words beside "is no" that make it right: `there is no view`, `it is no longer listed`.
const BESIDE_IS_NO: [&str; 3] = ["there", "longer", "more"];

/// Where a word is right, by the start of the path; and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("xtask/src/tidy/words.rs", "", "names the words"),
    ("crates/toolyard-serve/src/legacy/remember.rs", "keepsake", "the name of a member of stored files"),
    ("crates/toolyard/tests/apps/hub/restart.rs", "keepsake", "the name of a member of stored files"),
    ("xtask/messages/", "", "repeats what the packages have; it counts there"),
    ("CHANGELOG.md", "classic", "quotes messages of earlier versions"),
];

const BUDGET: &str = "xtask/words-budget.txt";
const HEAD: &str = "# Words of xtask/src/tidy/words.rs that are still there, by folder. The numbers may only shrink:\n\
                    # `cargo xtask tidy --shrink` writes them down.\n";

pub(super) fn check(files: &[String], findings: &mut Findings) {
    let counted = count(files);
    let budget = match std::fs::read_to_string(workspace::root().join(BUDGET)) {
        Ok(text) => parse(&text),
        Err(error) => return findings.error(BUDGET, &format!("cannot be read: {error}")),
    };
    for (folder, found) in &counted {
        let allowed = budget.get(folder).copied().unwrap_or_default();
        if found.len() > allowed {
            let shown = found.iter().take(if allowed == 0 { 20 } else { 5 });
            let shown: Vec<String> = shown.map(Found::show).collect();
            let what = format!("{} words of another dialect, {allowed} allowed", found.len());
            findings.error(folder, &format!("{what}; among them:\n    {}", shown.join("\n    ")));
        }
    }
    for (folder, allowed) in &budget {
        let found = counted.get(folder).map_or(0, Vec::len);
        if found < *allowed {
            let what = format!("{found} instead of {allowed} words: run `cargo xtask tidy --shrink`");
            findings.warn(folder, &what);
        }
    }
}

/// Writes the budget down where it has shrunk; never raises it.
pub(super) fn shrink() -> Result<()> {
    let path = workspace::root().join(BUDGET);
    // Only a missing file is filled: an empty budget allows nothing, and stays empty.
    let is_first = !path.exists();
    let budget = parse(&std::fs::read_to_string(&path).unwrap_or_default());
    let mut text = HEAD.to_owned();
    for (folder, found) in count(&workspace::files()?) {
        let allowed = if is_first { found.len() } else { budget.get(&folder).copied().unwrap_or_default() };
        let left = found.len().min(allowed);
        if left > 0 {
            writeln!(text, "{folder} {left}").context("write to a string")?;
        }
    }
    std::fs::write(&path, text).with_context(|| format!("write `{BUDGET}`"))
}

struct Found {
    place: String,
    word: &'static str,
    instead: &'static str,
}

impl Found {
    fn show(&self) -> String {
        format!("{}: `{}` (instead: {})", self.place, self.word, self.instead)
    }
}

/// What was found in each folder. Folders without any are there too.
fn count(files: &[String]) -> BTreeMap<String, Vec<Found>> {
    let mut counted: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for path in files.iter().filter(|path| is_text(path)) {
        let Ok(text) = std::fs::read_to_string(workspace::root().join(path)) else { continue };
        let found = counted.entry(folder(path)).or_default();
        for (index, line) in text.lines().enumerate() {
            for (word, instead) in in_line(line) {
                if !is_exception(path, word) {
                    found.push(Found { place: format!("{path}:{}", index + 1), word, instead });
                }
            }
        }
    }
    counted
}

fn is_text(path: &str) -> bool {
    let kind = Path::new(path).extension().and_then(std::ffi::OsStr::to_str);
    matches!(kind, Some("rs" | "md" | "toml" | "txt" | "py" | "sh" | "mjs" | "ts" | "js" | "html"))
}

fn is_exception(path: &str, word: &str) -> bool {
    EXCEPTIONS
        .iter()
        .any(|(start, excepted, _)| path.starts_with(start) && (excepted.is_empty() || *excepted == word))
}

/// A package, or the top folder of other files.
fn folder(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [top @ ("crates" | "sdk" | "packs" | "examples"), package, _, ..] => format!("{top}/{package}"),
        [top, _, ..] => (*top).to_owned(),
        _ => ".".to_owned(),
    }
}

fn parse(text: &str) -> BTreeMap<String, usize> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(folder, count)| Some((folder.to_owned(), count.trim().parse().ok()?)))
        .collect()
}

/// The words of the list in a line.
fn in_line(line: &str) -> Vec<(&'static str, &'static str)> {
    let words = split(line);
    let mut found = Vec::new();
    for (phrase, instead) in WORDS {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        for (at, window) in words.windows(wanted.len()).enumerate() {
            if window.iter().eq(wanted.iter()) && !(*phrase == "is no" && is_right_beside(&words, at)) {
                found.push((*phrase, *instead));
            }
        }
    }
    found
}

/// Whether the words before or after "is no", which begins at `at`, make it right.
fn is_right_beside(words: &[String], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| words.get(at));
    let neighbours = [before, words.get(at + 2)];
    neighbours.into_iter().flatten().any(|word| BESIDE_IS_NO.contains(&word.as_str()))
}

/// The words of a line in lower case; `is_told` and `IsTold` are two each.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for letter in line.chars() {
        let is_hump = letter.is_uppercase() && after_lower;
        if !letter.is_alphabetic() || is_hump {
            words.push(String::new());
        }
        if letter.is_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        after_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_prose_and_in_names() {
        let found = |line: &str| in_line(line).into_iter().map(|(word, _)| word).collect::<Vec<_>>();
        assert_eq!(found("/// Whoever asks is told: nobody's."), ["whoever", "nobody", "told"]);
        assert_eq!(found("fn an_older_client_is_served() {}"), ["older client"]);
        assert_eq!(found("struct ToldBy; // older than that"), ["told"]);
        assert_eq!(found("it is no URL; there is no view; it is no longer listed"), ["is no"]);
        assert_eq!(found("the server standstill, toldest, saidest"), Vec::<&str>::new());
    }

    #[test]
    fn a_budget_is_one_line_for_each_folder() {
        let budget = parse("# a comment\ncrates/toolyard 12\n. 3\n");
        assert_eq!(
            budget.into_iter().collect::<Vec<_>>(),
            [(".".to_owned(), 3), ("crates/toolyard".to_owned(), 12)]
        );
        assert_eq!(folder("crates/toolyard/src/main.rs"), "crates/toolyard");
        assert_eq!(folder("docs/guide/cli.md"), "docs");
        assert_eq!(folder("README.md"), ".");
    }
}
