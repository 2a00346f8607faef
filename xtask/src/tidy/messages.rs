//! Whatever the program says to a person stands in an expected output, so that somebody has read it as its
//! reader will: every sentence in the code of the program must occur in `tests/golden/*.txt` or in a transcript
//! `tests/commands/*.md`.
//!
//! A sentence is a string literal with words in it. What is filled in (`{…}`) may be anything; all that stands
//! around it must occur. Not looked at: tests, attributes, what goes into the log, and why an `expect` holds.

use std::ffi::OsStr;
use std::path::Path;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::Lit;

use super::Findings;
use super::source::Source;
use crate::workspace;

const PROGRAM: [&str; 5] = [
    "crates/toolyard/src/",
    "crates/toolyard-clients/src/",
    "crates/toolyard-config/src/",
    "crates/toolyard-guard/src/",
    "crates/toolyard-shim/src/",
];
const EXPECTED: [&str; 2] = ["crates/toolyard/tests/golden/", "crates/toolyard/tests/commands/"];

/// What cannot be brought about in a test, or is no word to a person, by how it begins; and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("invalid escape", "words of the JSON parser that are looked for"),
    ("key must be a string", "words of the JSON parser that are looked for"),
    (
        "wait, or raise `start_timeout` if it takes longer than two minutes",
        "needs a server that starts for half a minute",
    ),
    (
        "is not used: a project file does not join a cluster",
        "as for the other sections that a project file cannot set",
    ),
    ("The cluster as this node sees it.", "in the description of the API"),
    ("Whether this gateway is a node of a cluster.", "in the description of the API"),
    ("this machine has no name; set `node` in [cluster]", "needs a machine without a name"),
    (
        "the config has a [cluster], and this program was built without clusters",
        "depends on how the program was built",
    ),
    (
        "the config has [traces], and this program was built without traces",
        "depends on how the program was built",
    ),
    ("connected to NATS", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("NOT connected to NATS", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("node {}: {store}, lease valid for", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("this node", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("(at the node {node})", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("direct,", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("through NATS,", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("fails:", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("{} has a [cluster] already", "needs a program with clusters; crates/toolyard/tests/cluster shows it"),
    (
        "remove that section first, or change it by hand",
        "needs a program with clusters; crates/toolyard/tests/cluster shows it",
    ),
    ("added [cluster] to", "needs a program with clusters; crates/toolyard/tests/cluster shows it"),
    (
        "note: it takes effect when the gateway is started again",
        "needs a program with clusters; crates/toolyard/tests/cluster shows it",
    ),
    (
        "name the file that your team gave you",
        "needs a program with clusters; crates/toolyard/tests/cluster shows it",
    ),
    ("the gateway made no code for the dashboard", "needs a gateway of another version"),
    ("there is no state directory", "needs a user without a home"),
    ("The config files in force.", "in the description of the API; cargo xtask ui shows it"),
    ("What adding a server would change.", "in the description of the API; cargo xtask ui shows it"),
    ("Add a server to the config.", "in the description of the API; cargo xtask ui shows it"),
    ("did not end within {} s", "takes half a minute; a test of the crate has it"),
    ("put {left} of their secrets into the store", "is asked on a terminal only"),
    ("scripts cannot be run here", "needs a program without the pack"),
    (
        "warning: lines were left out: the script",
        "needs a script that prints faster than a loaded machine reads",
    ),
    ("services of Windows are not supported", "needs Windows"),
    ("create a task with the Task Scheduler", "needs Windows"),
    ("the command failed", "no command that the API runs ends so"),
    ("the audit needs a state directory; name one with --state-dir", "needs a user without a home"),
    (
        "no browser could be opened; open the page yourself",
        "depends on the machine: it would open a browser where there is one",
    ),
    (
        "the config is invalid:",
        "needs a gateway that asks for tokens, and a config that was broken since; tests/apps/shim.rs shows it",
    ),
    (
        "cannot listen for apps on",
        "a loopback address is free, or taken, or beyond the rights of whoever asks",
    ),
    (
        "{first} and the {MORE_PORTS} ports after it are taken",
        "needs the usual ports, which are not for tests to take",
    ),
    (
        "{taken} is taken, so this is the next free port",
        "the same; tests/cli shows that the next port is used",
    ),
    ("the next free port is used", "the same"),
    ("does not answer", "stands in for a reason, and whoever is not ready has one"),
    ("~/Library/Application Support", "a path"),
    (
        "another program changed the file",
        "needs a client that writes in that moment; tests/cli/installing.rs shows it",
    ),
    ("it belongs to another user or group", "needs a file of somebody else, and tests have one user"),
    ("set the owner of", "root may do that, and nobody else tries"),
    ("number out of range", "what the JSON library says, which is put in other words"),
    ("recursion limit", "the same"),
    ("cannot record used tokens in", "needs a state directory that cannot be written since it was opened"),
    ("cannot read or write the keys in", "the same"),
    ("this kernel cannot enforce `sandbox`", "needs an old kernel"),
    ("the kernel did not enforce it", "the same"),
    ("program `{}` could not be started in its sandbox", "tests/policy/sandbox.rs shows it, on Linux"),
    ("it cannot be opened", "stands in for a reason that the system always gives"),
    ("`sandbox` needs Linux", "needs another system"),
    ("`sandbox` needs the process guard", "needs a Linux without /proc"),
    ("run it elsewhere, or remove `sandbox`", "goes with these"),
    ("error: `toolyard confine` is what", "only a guard writes that command line"),
    ("is not used: a project file does not name accounts", "as for `log`"),
    ("is not used: a project file does not decide", "as for `log`; the reader's own words are shown there"),
    ("arguments: {}", "needs a call that waits; tests/policy/approvals.rs shows it"),
    ("the control API answered with events", "only one path does, and no command asks for it"),
    ("`toolyard list` shows why; fix it, or lock", "needs a server that was never connected"),
    ("server `{id}` has not reported its tools", "the same"),
    ("{who} may call it: there are no rules", "tests/policy/rules.rs shows what `explain --as` prints"),
    ("expected `role:NAME` or `class:NAME`", "the same"),
    ("(its condition failed", "the same"),
    ("start the runtime", "needs a system without file handles"),
    ("find this program", "needs a system without /proc"),
    ("no random numbers", "needs a system without them"),
    ("the guard cannot do its work", "needs a kernel without subreapers"),
    ("the gateway sent a stream", "none is asked for; the type allows it"),
    ("`{full}` has neither packages nor remotes", "only a file that is no server.json"),
    ("a package of no kind", "goes with `offers only`"),
    ("{kind} without a name", "the same"),
    ("a remote of type", "the same"),
    ("a remote without a url", "the same"),
    ("there are no completions for `", "the values of the argument rule it out"),
    ("{count} operations are tools", "the plural of one that is shown"),
    ("{} has not ended after", "needs a script that cannot be killed"),
    ("kill the process {}", "the same"),
    ("{tool} asks:", "needs a terminal; tests/commands/asking.rs shows it"),
    ("an empty line takes the default or leaves", "the same"),
    ("open this page in a browser", "the same"),
    ("have you opened it", "the same"),
    ("`{name}` is required", "the same"),
    ("several of {}", "the same"),
    (", default {default}", "the same"),
    ("must be yes or no", "the same"),
    ("must be at least", "the same"),
    ("must be at most", "the same"),
    ("must have at least", "the same"),
    ("must have at most", "the same"),
    ("{} asked {MOST_ROUNDS} times", "needs a tool that asks for ever"),
    ("`{}` can only be answered by a client", "servers know it beforehand, by the capabilities"),
    ("the answer of `{tool}` has invalid base64", "needs a broken server"),
    ("--json shows the answer", "the same"),
    ("{} is full of files of", "needs 10,000 files"),
    ("name another folder", "the same"),
    ("end the process {pid} with Ctrl-C", "Windows only"),
    ("duplicate key", "what the TOML library says, which is put in other words"),
    ("the config cannot be watched any more", "goes into the log"),
    ("{wrong}: {why}", "needs a pack with a required key; tests/music/keys.rs shows it"),
    ("value of `", "needs a terminal"),
    ("background work of packs", "needs a pack that runs something by itself"),
    ("WORK OR PROGRAM", "the same"),
    ("an operator asked for it", "goes into the log"),
    ("the gateway did not answer within", "needs a gateway that hangs"),
    ("connect to", "needs a gateway that ends in that moment"),
    ("send the request", "the same"),
    ("read the answer", "the same"),
    ("the answer has no head", "the same"),
    ("the answer has no status", "the same"),
    ("{method} /api/v1", "the text of a request"),
    ("no client is left", "goes into the log"),
    ("waiting for", "comes and goes on a terminal"),
    ("{name}:{latest}", "the same"),
    ("{} under way, {} waiting", "no word but a cell of a table; tests/apps has apps"),
    ("LAST ACTIVITY", "the same"),
    ("discovery by", "the same, of instances"),
    ("{kind} (found by scan:", "a cell of a table, of apps that were found; tests/apps has apps"),
    ("the config names it", "a reason in the list of instances; tests/apps has instances"),
    ("that is this gateway", "the same"),
    ("the pack `{name}` does not run on", "the same; every pack runs on Linux"),
    ("this program was built without the pack", "tests run with all features"),
    ("(not shown, since it is not valid TOML", "is in an answer of the API"),
    ("the gateway keeps ending", "a client receives it that asks in that moment"),
];

pub(super) fn check(files: &[String], sources: &[Source], findings: &mut Findings) {
    let expected = expected(files);
    let mut unused: Vec<&str> = EXCEPTIONS.iter().map(|(words, _)| *words).collect();
    for source in sources.iter().filter(|source| is_of_program(&source.path) && !source.is_test()) {
        for (line, text) in sentences(source, Kind::Printed) {
            let missing = parts(&text).into_iter().find(|part| !expected.contains(part));
            let Some(missing) = missing else { continue };
            if let Some((words, _)) = EXCEPTIONS.iter().find(|(words, _)| squeezed(&text).starts_with(words))
            {
                unused.retain(|unused| unused != words);
                continue;
            }
            findings.error(
                &format!("{}:{line}", source.path),
                &format!(
                    "`{missing}` is in no expected output: bring it about in crates/toolyard/tests/commands/*.md, or say in EXCEPTIONS of xtask/src/tidy/messages.rs why it cannot be"
                ),
            );
        }
    }
    for words in unused {
        findings
            .error("xtask/src/tidy/messages.rs", &format!("the exception `{words}` is not needed any more"));
    }
}

fn is_of_program(path: &str) -> bool {
    PROGRAM.iter().any(|folder| path.starts_with(folder))
}

/// All expected outputs, as one line.
fn expected(files: &[String]) -> String {
    let is_expected = |path: &&String| {
        let kind = Path::new(path).extension().and_then(OsStr::to_str);
        let is_output = matches!(kind, Some("txt" | "md"));
        is_output && EXPECTED.iter().any(|folder| path.starts_with(folder))
    };
    let read = |path: &String| std::fs::read_to_string(workspace::root().join(path)).unwrap_or_default();
    squeezed(&files.iter().filter(is_expected).map(read).collect::<Vec<_>>().join("\n"))
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Which string literals count as messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// What the program prints.
    Printed,
    /// Log lines and the texts of error types as well.
    All,
}

/// The sentences outside of tests, each with its line.
pub(super) fn sentences(source: &Source, kind: Kind) -> Vec<(usize, String)> {
    let Ok(tokens) = source.text.parse::<TokenStream>() else { return Vec::new() };
    let mut found = Vec::new();
    walk(tokens, kind, &mut found);
    found.retain(|(line, text)| !source.is_test_line(*line) && is_sentence(text));
    found
}

fn walk(tokens: TokenStream, kind: Kind, found: &mut Vec<(usize, String)>) {
    // The words before a group, as far as they say what it is for.
    let mut before: Vec<String> = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                if !is_passed_over(&before, &group, kind) {
                    walk(group.stream(), kind, found);
                }
                before.clear();
            }
            TokenTree::Literal(literal) => {
                if let Lit::Str(text) = Lit::new(literal.clone()) {
                    found.push((literal.span().start().line, text.value()));
                }
                before.clear();
            }
            TokenTree::Ident(name) => before.push(name.to_string()),
            TokenTree::Punct(punct) if matches!(punct.as_char(), '#' | '!' | ':') => {
                before.push(punct.to_string());
            }
            TokenTree::Punct(_) => before.clear(),
        }
    }
}

/// Attributes, the log, and the reason of an `expect`.
fn is_passed_over(before: &[String], group: &Group, kind: Kind) -> bool {
    let ends_with = |words: &[&str]| before.iter().rev().zip(words.iter().rev()).all(|(a, b)| a == b);
    match group.delimiter() {
        Delimiter::Bracket => {
            let is_attribute =
                before.last().is_some_and(|last| last == "#") || before.len() > 1 && ends_with(&["#", "!"]);
            is_attribute && !(kind == Kind::All && is_error_text(group))
        }
        Delimiter::Parenthesis => {
            kind == Kind::Printed && before.first().is_some_and(|first| first == "tracing")
                || before.last().is_some_and(|last| last == "expect")
        }
        _ => false,
    }
}

/// `#[error("…")]`, the text of an error type.
fn is_error_text(attribute: &Group) -> bool {
    matches!(attribute.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "error")
}

/// Two words beside each other.
fn is_sentence(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ends_as_word = |word: &str| word.trim_end_matches([',', ';', ':']).ends_with(char::is_alphabetic);
    let begins_as_word =
        |word: &str| word.starts_with(|c: char| c.is_alphabetic() || matches!(c, '`' | '{' | '('));
    words.windows(2).any(|pair| ends_as_word(pair[0]) && begins_as_word(pair[1]))
}

/// What is said around that which is filled in.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut rest) = (vec![String::new()], text);
    while let Some(at) = rest.find(['{', '}']) {
        let (said, more) = rest.split_at(at);
        parts.last_mut().into_iter().for_each(|part| part.push_str(said));
        let is_doubled = more.len() > 1 && more.as_bytes()[0] == more.as_bytes()[1];
        rest = if is_doubled {
            parts.last_mut().into_iter().for_each(|part| part.push_str(&more[..1]));
            &more[2..]
        } else {
            parts.push(String::new());
            more.find('}').map_or("", |end| &more[end + 1..])
        };
    }
    parts.last_mut().into_iter().for_each(|part| part.push_str(rest));
    let parts = parts.iter().map(|part| squeezed(part));
    parts.filter(|part| part.chars().filter(|c| c.is_alphabetic()).count() > 2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, expected: &[&[&str]]) {
        let source = Source::parse("src/a.rs", format!("//! A file.\n{code}")).unwrap();
        let found: Vec<Vec<String>> =
            sentences(&source, Kind::Printed).iter().map(|(_, text)| parts(text)).collect();
        assert_eq!(found, expected, "{code}");
    }

    #[test]
    fn what_is_filled_in_may_be_anything() {
        check(
            r#"fn f() { bail!("cannot read {path}: it is {} bytes") }"#,
            &[&["cannot read", ": it is", "bytes"]],
        );
        check(
            r#"const HELP: &str = "write \
                 it {{ so }}";"#,
            &[&["write it { so }"]],
        );
    }

    #[test]
    fn words_that_no_person_reads_are_passed_over() {
        check(r#"fn f() { tracing::warn!("it is gone"); }"#, &[]);
        check(r#"#[expect(dead_code, reason = "it is fine")] fn f() {}"#, &[]);
        check(r#"fn f() { x.expect("it is there"); y("key", "a.b") }"#, &[]);
        check(r#"#[cfg(test)] mod tests { const A: &str = "a test says"; }"#, &[]);
    }
}
