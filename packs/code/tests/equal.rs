//! The same answers as ripgrep, fd and ast-grep, which `cargo xtask code` installs.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "support/client.rs"]
mod client;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use client::{Client, with_client};

fn program(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run this test with `cargo xtask code`"));
    PathBuf::from(path)
}

/// What a program prints, by lines. No match is not an error.
fn lines(variable: &str, folder: &Path, arguments: &[&str]) -> Vec<String> {
    let output = Command::new(program(variable)).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

async fn in_project(project: &Path, test: impl AsyncFnOnce(&mut Client)) {
    let config = json!({ "projects": [project], "write": true });
    let cache = tempfile::tempdir().unwrap();
    let host = toolyard_tool::Host::for_tests(cache.path());
    with_client(toolyard_pack_code::pack().tools_in(config, host).unwrap(), test).await;
}

#[tokio::test]
#[ignore = "needs ripgrep: cargo xtask code"]
async fn grep_finds_on_this_repository_what_ripgrep_finds() {
    let root = repository();
    in_project(&root, async |client| {
        for (pattern, glob, ignore_case) in [
            (r"impl\s+Drop\s+for\s+\w+", None, false),
            (r"^use std::collections::HashMap;$", None, false),
            (r"\bRELAY\b", None, true),
            (r"fn \w*_(and|or)_\w*\(", Some("*.rs"), false),
            (r"🦀", None, false),
            (r"[^\x00-\x7F]{3,}", Some("!*.lock"), false),
            (r"TODO|FIXME", None, false),
            (r"\{[^{}]{200,}\}", None, false),
        ] {
            let mut arguments = vec!["--no-heading", "--with-filename", "--line-number", "--color=never"];
            arguments.extend(glob.iter().flat_map(|glob| ["--glob", glob]));
            arguments.extend(ignore_case.then_some("--ignore-case"));
            arguments.push(pattern);
            let expected: BTreeSet<(String, usize)> = lines("TOOLYARD_CODE_RG", &root, &arguments)
                .iter()
                .map(|line| {
                    let mut parts = line.splitn(3, ':');
                    (parts.next().unwrap().to_owned(), parts.next().unwrap().parse().unwrap())
                })
                .collect();
            let query =
                json!({ "pattern": pattern, "file_pattern": glob, "ignore_case": ignore_case, "limit": 10_000 });
            let found = client.call("grep_search", query).await;
            let ours: BTreeSet<(String, usize)> = found["matches"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| (one["file"].as_str().unwrap().to_owned(), usize::try_from(one["line"].as_u64().unwrap()).unwrap()))
                .collect();
            assert_eq!(found["total"], expected.len(), "{pattern}");
            assert_eq!(ours, expected, "{pattern}");
        }
    })
    .await;
}

/// A file, a line, and whether it matches or is only near a match.
type Line = (String, u64, bool);

/// What ripgrep lists with lines around matches.
fn with_context(root: &Path, pattern: &str, context: &str) -> BTreeSet<Line> {
    let arguments = ["--json", "--context", context, pattern];
    let messages = lines("TOOLYARD_CODE_RG", root, &arguments).into_iter();
    let messages = messages.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    messages
        .filter(|message| ["match", "context"].contains(&message["type"].as_str().unwrap()))
        .map(|message| {
            let data = &message["data"];
            let file = data["path"]["text"].as_str().unwrap().to_owned();
            (file, data["line_number"].as_u64().unwrap(), message["type"] == "match")
        })
        .collect()
}

/// The same of one of our matches.
fn lines_of(found: &Value) -> Vec<Line> {
    let (file, line) = (found["file"].as_str().unwrap(), found["line"].as_u64().unwrap());
    let count = |key: &str| found[key].as_array().map_or(0, |lines| lines.len() as u64);
    let near = (line - count("before")..line).chain(line + 1..=line + count("after"));
    near.map(|line| (file.to_owned(), line, false)).chain([(file.to_owned(), line, true)]).collect()
}

#[tokio::test]
#[ignore = "needs ripgrep: cargo xtask code"]
async fn grep_lists_the_lines_around_matches_that_ripgrep_lists() {
    let root = repository();
    in_project(&root, async |client| {
        for (pattern, context) in
            [(r"impl\s+Drop\s+for\s+\w+", 3), (r"^use std::collections::HashMap;$", 1), (r"fn main\(", 10)]
        {
            let expected = with_context(&root, pattern, &context.to_string());
            let query = json!({ "pattern": pattern, "context": context, "limit": 10_000 });
            let found = client.call("grep_search", query).await;
            let ours: Vec<Line> = found["matches"].as_array().unwrap().iter().flat_map(lines_of).collect();
            assert_eq!(ours.len(), expected.len(), "{pattern}: each line once");
            assert_eq!(ours.into_iter().collect::<BTreeSet<_>>(), expected, "{pattern}");
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs fd: cargo xtask code"]
async fn glob_finds_on_this_repository_what_fd_finds() {
    let root = repository();
    in_project(&root, async |client| {
        for pattern in
            ["*.rs", "*.{md,toml}", "mod?.rs", "Cargo.*", "readme*", "README*", "*_*_*.rs", "[a-c]*.rs"]
        {
            let mut expected =
                lines("TOOLYARD_CODE_FD", &root, &["--type=file", "--glob", "--color=never", pattern]);
            expected.sort();
            let found = client.call("glob_files", json!({ "pattern": pattern, "limit": 10_000 })).await;
            let mut ours: Vec<&str> =
                found["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
            ours.sort_unstable();
            assert_eq!(ours, expected, "{pattern}");
        }
    })
    .await;
}

/// A language, a file, a pattern, what replaces it, and a text with nested matches and characters of several bytes.
const FIXTURES: [(&str, &str, &str, &str, &str); 15] = [
    (
        "rust",
        "a.rs",
        "$A.unwrap()",
        "$A?",
        "fn f() { /* é */ a.unwrap().b().unwrap(); c(d.unwrap()).unwrap() }\nfn g() { x.unwrap_or(1) }\n",
    ),
    (
        "python",
        "a.py",
        "print($$$ARGS)",
        "log($$$ARGS)",
        "def f():\n    s = 'é🦀'; print(print(1), 2)\n    print()\n",
    ),
    (
        "javascript",
        "a.js",
        "console.log($A)",
        "debug($A)",
        "const é = '🦀'; console.log(console.log(é));\nconsole.log(1, 2);\n",
    ),
    (
        "typescript",
        "a.ts",
        "$A as $B",
        "<$B>$A",
        "const x = (y as string) as unknown as Z;\nlet w: number = 1;\n",
    ),
    (
        "go",
        "a.go",
        "if err != nil { $$$BODY }",
        "check(err)",
        "package a\nfunc f() error {\n\tif err != nil { return err }\n\tif err != nil { if err != nil { panic(err) } }\n\treturn nil\n}\n",
    ),
    (
        "java",
        "A.java",
        "$A.equals($B)",
        "Objects.equals($A, $B)",
        "class A { boolean f(String a) { return a.equals(b.equals(c)) && \"é\".equals(a); } }\n",
    ),
    ("c", "a.c", "g($A, $B)", "h($B, $A)", "int f(int n) { return g(n, g(3, 4)) + g(1); }\n"),
    ("ruby", "a.rb", "$A.nil?", "nil?($A)", "def f(a)\n  a.nil? || a.b.nil?.nil?\nend\n"),
    (
        "bash",
        "a.sh",
        "echo $A",
        "printf $A",
        "f() { echo \"é🦀\"; echo $(echo b); echo a b; }\nif true; then echo $HOME; fi\n",
    ),
    (
        "css",
        "a.css",
        "@media $A { $$$B }",
        "@supports $A { $$$B }",
        "/* é */ @media print { .b { color: blue } @media screen { a { top: 0 } } }\n",
    ),
    (
        "html",
        "a.html",
        "<b>$$$A</b>",
        "<strong>$$$A</strong>",
        "<!doctype html>\n<p>é <b>bold <b>inner</b></b></p><b></b>\n",
    ),
    ("json", "a.json", "\"x\"", "\"y\"", "{ \"é\": [1, [2, \"x\"]], \"b\": { \"x\": \"x\" } }\n"),
    (
        "php",
        "a.php",
        "strlen($A)",
        "mb_strlen($A)",
        "<?php\n/* é */ function f($s) { return strlen(strlen($s)) + strlen(\"x\", 1); }\n",
    ),
    (
        "tsx",
        "a.tsx",
        "<B x={$A} />",
        "<C x={$A} />",
        "const a = <B x={<B x={1} />} />; const é = <B y={2} />;\n",
    ),
    ("yaml", "a.yaml", "a: $A", "z: $A", "a: é\nb:\n  a: [1, 2]\n  c: &x {a: 2}\n"),
];

type Span = (u64, u64, u64);

#[tokio::test]
#[ignore = "needs ast-grep: cargo xtask code"]
async fn syntax_is_found_and_rewritten_as_ast_grep_does_in_every_language() {
    for (language, file, pattern, replacement, text) in FIXTURES {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        for copy in [&ours, &theirs] {
            std::fs::create_dir(copy).unwrap();
            std::fs::write(copy.join(file), text).unwrap();
        }
        let run = ["run", "--lang", language, "--pattern", pattern];
        let found = lines("TOOLYARD_CODE_AST_GREP", &theirs, &[&run[..], &["--json=stream"]].concat());
        let mut expected: Vec<Span> =
            found.iter().map(|line| span(&serde_json::from_str(line).unwrap())).collect();
        expected.sort_unstable();
        assert!(!expected.is_empty(), "{language}");
        in_project(&ours, async |client| {
            let query = json!({ "pattern": pattern, "language": language });
            let found = client.call("ast_grep_search", query).await;
            let number = |one: &Value, key: &str| one[key].as_u64().unwrap();
            let mut spans: Vec<Span> = found["matches"].as_array().unwrap().iter()
                .map(|one| (number(one, "line"), number(one, "column"), number(one, "end_line"))).collect();
            spans.sort_unstable();
            assert_eq!(spans, expected, "{language}");
            let rewrite = json!({ "pattern": pattern, "replacement": replacement, "language": language, "dry_run": false });
            assert_eq!(client.call("ast_grep_replace", rewrite).await["applied"], true, "{language}");
        })
        .await;
        let update = [&run[..], &["--rewrite", replacement, "--update-all"]].concat();
        let output = Command::new(program("TOOLYARD_CODE_AST_GREP"))
            .args(update)
            .current_dir(&theirs)
            .output()
            .unwrap();
        assert!(output.status.success(), "{language}");
        let read = |copy: &Path| std::fs::read_to_string(copy.join(file)).unwrap();
        assert_eq!(read(&ours), read(&theirs), "{language}");
    }
}

/// Line and column from 1, and the last line.
fn span(found: &Value) -> Span {
    let at = |end: &str, key: &str| found["range"][end][key].as_u64().unwrap() + 1;
    (at("start", "line"), at("start", "column"), at("end", "line"))
}
