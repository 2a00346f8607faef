//! Every message that the program prints appears in an expected output of a test, so that it has been reviewed: each
//! sentence in the code of the program must occur in `tests/golden/*.txt` or in a transcript `tests/commands/*.md`.
//!
//! A sentence is a string literal with words in it. A placeholder (`{…}`) matches any text; the text around it must
//! occur. Tests, attributes, log lines and the reasons of `expect` are not checked.

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

/// Messages that no test can cause, or that are not for people, by their first words; and the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("invalid escape", "a message of the JSON parser, which is searched for"),
    ("key must be a string", "a message of the JSON parser, which is searched for"),
    (
        "is not used: a project file cannot join a cluster",
        "as for the other sections that a project file cannot set",
    ),
    ("The cluster as this node sees it.", "in the description of the API"),
    ("Whether this gateway is a node of a cluster.", "in the description of the API"),
    ("the lock is never free", "needs a gateway that stops while it writes a line to a file"),
    ("an address that is not known yet", "needs a gateway that has the lock and no address yet"),
    ("`toolyard login {}` signs you in", "every such state has a hint today; a unit test shows it"),
    ("fix its section in the config; it is read", "every such state has a hint today; a unit test shows it"),
    ("look at its log (`toolyard logs", "every such state has a hint today; a unit test shows it"),
    ("arguments, cut:", "has thousands of characters; `tests/policy/approvals.rs` checks it"),
    (
        "these are {} of",
        "has an id and a digest of its own in each run; `tests/policy/approvals.rs` checks it",
    ),
    ("; would block: {}", "no hook that comes with the program blocks a call today"),
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
    ("; its lease has ended, so it runs", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("check that a server of `nats` in [cluster]", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("`toolyard cluster status` shows the nodes and", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("wait for a few seconds; if it stays so", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("other node", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("check `listen` and `advertise` in the [cluster]", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("node {} has other upstreams, profiles or rules", "needs NATS; crates/toolyard/tests/cluster shows it"),
    ("that is fine if it is intended", "needs NATS; crates/toolyard/tests/cluster shows it"),
    (
        "note: {unread} messages of the stream were left out",
        "needs NATS; crates/toolyard/tests/cluster shows it",
    ),
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
        "warning: lines were left out: there are more",
        "needs a script that prints faster than a loaded machine reads",
    ),
    ("start the script with `--log FILE` and read the file", "needs a user without a folder for sockets"),
    ("the log of {} cannot be read from here", "the same"),
    (
        "the process that runs the script does not answer",
        "needs a process that is stopped for longer than a test waits",
    ),
    ("services of Windows are not supported", "needs Windows"),
    ("create a task with the Task Scheduler", "needs Windows"),
    ("the command failed", "no command that the API runs ends in this way"),
    ("the audit needs a state directory; name one with --state-dir", "needs a user without a home"),
    (
        "no browser could be opened; open the page yourself",
        "depends on the machine: it would open a browser if there is one",
    ),
    ("cannot listen for apps on", "a loopback address is free, or taken, or beyond the rights of the user"),
    (
        "{first} and the {MORE_PORTS} ports after it are taken",
        "needs the default ports, which tests must not use",
    ),
    (
        "{taken} is taken, so this is the next free port",
        "the same; tests/cli shows that the next port is used",
    ),
    ("the next free port is used", "the same"),
    ("does not answer", "is used only if there is no reason, and a server that is not ready has one"),
    ("~/Library/Application Support", "a path"),
    (
        "another program changed the file",
        "needs a client that writes at the same time; tests/cli/installing.rs shows it",
    ),
    ("it belongs to another user or group", "needs a file of another user, and tests have one user"),
    ("set the owner of", "only root can do that"),
    ("number out of range", "a message of the JSON library, which is reworded"),
    ("recursion limit", "the same"),
    ("cannot record used tokens in", "needs a state directory that cannot be written since it was opened"),
    ("cannot read or write the keys in", "the same"),
    ("this kernel cannot enforce `sandbox`", "needs an old kernel"),
    ("the kernel did not enforce it", "the same"),
    ("program `{}` could not be started in its sandbox", "tests/policy/sandbox.rs shows it, on Linux"),
    ("it cannot be opened", "is used only if the system gives no reason, which it always does"),
    ("`sandbox` needs Linux", "needs another system"),
    ("`sandbox` needs the process guard", "needs a Linux without /proc"),
    ("run it elsewhere, or remove `sandbox`", "goes with these"),
    ("error: `toolyard confine` is what", "only a guard writes that command line"),
    ("is not used: a project file cannot name accounts", "as for `log`"),
    ("is not used: a project file cannot decide", "as for `log`, whose message is shown"),
    ("the control API answered with events", "only one path does, and no command requests it"),
    ("`toolyard list` shows why; fix it, or lock", "needs a server that was never connected"),
    ("server `{id}` has not reported its tools", "the same"),
    ("{who} may call it: there are no rules", "tests/policy/rules.rs shows what `explain --as` prints"),
    ("expected `role:NAME` or `class:NAME`", "the same"),
    ("(its condition failed", "the same"),
    ("start the runtime", "needs a system without file handles"),
    ("find this program", "needs a system without /proc"),
    ("no random numbers", "needs a system without them"),
    ("the guard cannot do its work", "needs a kernel without subreapers"),
    ("the gateway sent a stream", "no stream is requested; the type allows one"),
    ("`{full}` has neither packages nor remotes", "only a file that is not a server.json"),
    ("a package of no kind", "goes with `offers only`"),
    ("{kind} without a name", "the same"),
    ("a remote of type", "the same"),
    ("a remote without a url", "the same"),
    ("there are no completions for `", "the values of the argument exclude it"),
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
    ("{} asked {MOST_ROUNDS} times", "needs a tool that never stops asking"),
    ("`{}` can only be answered by a client", "servers know it before, by the capabilities"),
    ("the answer of `{tool}` has invalid base64", "needs a broken server"),
    ("--json shows the answer", "the same"),
    ("{} is full of files of", "needs 10,000 files"),
    ("name another folder", "the same"),
    ("end the process {pid} with Ctrl-C", "Windows only"),
    ("duplicate key", "a message of the TOML library, which is reworded"),
    ("the config cannot be watched any more", "goes into the log"),
    ("{wrong}: {why}", "needs a pack with a required key; tests/music/keys.rs shows it"),
    ("value of `", "needs a terminal"),
    ("background work of packs", "needs a pack that runs something by itself"),
    ("WORK OR PROGRAM", "the same"),
    ("an operator asked for it", "goes into the log"),
    ("connect to", "needs a gateway that ends at that moment"),
    ("send the request", "the same"),
    ("read the answer", "the same"),
    ("the answer has no head", "the same"),
    ("the answer has no status", "the same"),
    ("{method} /api/v1", "the text of a request"),
    ("no client is left", "goes into the log"),
    ("waiting for", "is shown only for a moment, on a terminal"),
    ("{name}:{latest}", "the same"),
    ("{} under way, {} waiting", "a cell of a table; tests/apps has apps"),
    ("LAST ACTIVITY", "the same"),
    ("discovery by", "the same, of instances"),
    ("{kind} (found by scan:", "a cell of a table, of apps that were found; tests/apps has apps"),
    ("the config names it", "a reason in the list of instances; tests/apps has instances"),
    ("that is this gateway", "the same"),
    ("the pack `{name}` does not run on", "the same; every pack runs on Linux"),
    ("this program was built without the pack", "tests run with all features"),
    ("(not shown, since it is not valid TOML", "is in an answer of the API"),
    ("the gateway keeps ending", "only a client that connects at that moment receives it"),
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
                    "`{missing}` is in no expected output: add a test for it to crates/toolyard/tests/commands/*.md, or state in EXCEPTIONS of xtask/src/tidy/messages.rs why there cannot be one"
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
    // The words before a group, which show what it is.
    let mut before: Vec<String> = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                if !is_skipped(&before, &group, kind) {
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
fn is_skipped(before: &[String], group: &Group, kind: Kind) -> bool {
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

/// The text around the placeholders.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut rest) = (vec![String::new()], text);
    while let Some(at) = rest.find(['{', '}']) {
        let (text, more) = rest.split_at(at);
        parts.last_mut().into_iter().for_each(|part| part.push_str(text));
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
    fn a_placeholder_matches_any_text() {
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
    fn log_lines_attributes_and_tests_are_not_checked() {
        check(r#"fn f() { tracing::warn!("it is gone"); }"#, &[]);
        check(r#"#[expect(dead_code, reason = "it is fine")] fn f() {}"#, &[]);
        check(r#"fn f() { x.expect("it is there"); y("key", "a.b") }"#, &[]);
        check(r#"#[cfg(test)] mod tests { const A: &str = "a test message"; }"#, &[]);
    }
}
