//! The server in ten lines: it has at most ten, the documentation quotes it, and it works.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const SOURCE: &str = include_str!("../src/bin/ten-lines.rs");
const INTRO: &str = include_str!("../../../sdk/toolyard-tool/src/docs/intro.md");

#[test]
fn it_has_at_most_ten_lines_and_is_quoted_in_the_documentation() {
    let code = SOURCE.lines().filter(|line| !line.is_empty() && !line.starts_with("//!"));
    assert!(code.count() <= 10);
    let (_, program) = SOURCE.split_once("\n\n").unwrap();
    assert!(INTRO.contains(&format!("```no_run\n{program}```")), "the same program");
}

/// Sends lines to the program and returns its answers; then the program ends by itself.
fn answers(requests: &[Value]) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ten-lines"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for request in requests {
        writeln!(stdin, "{request}").unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn it_answers_clients_of_both_eras() {
    let call = json!({ "name": "hello", "arguments": {} });
    let info = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    let older = answers(&[
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }),
    ]);
    assert_eq!(older[0]["result"]["serverInfo"]["name"], "ten-lines");
    let mut call = call;
    call["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": info,
    });
    let modern = answers(&[json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call })]);
    for answer in [older.last().unwrap(), modern.last().unwrap()] {
        let expected = json!([{ "type": "text", "text": "Hello!" }]);
        assert_eq!((&answer["id"], &answer["result"]["content"]), (&json!(2), &expected), "{answer}");
    }
}
