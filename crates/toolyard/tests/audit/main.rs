//! The audit through the real program: what is recorded, who may read it, and what a kill leaves.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

#[expect(dead_code, reason = "shared with other tests")]
#[path = "../cli/gateway.rs"]
mod gateway;
#[path = "../support/testkit.rs"]
mod testkit;

mod held;
mod secrets;
mod traces;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use gateway::Home;
use nix::sys::signal::Signal;
use parking_lot::Mutex;

/// Calls a built-in tool with a number; whether an answer with a result came back.
fn call(url: &str, number: usize) -> std::io::Result<bool> {
    let address = url.trim_start_matches("http://").split('/').next().unwrap();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"yard__status","arguments":{{"number":{number},"password":"s3cret"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"audited","version":"1"}}}}}}}}"#
    );
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: yard__status\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.contains("\"result\""))
}

/// The numbers of the calls that the audit has.
fn recorded(home: &Home) -> HashSet<usize> {
    let (code, lines, error) = home.run(&["audit", "--json", "--state-dir", "state"]);
    assert_eq!((code, error.as_str()), (0, ""));
    let number = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let request: serde_json::Value = serde_json::from_str(record["request"].as_str()?).unwrap();
        request["arguments"]["number"].as_u64().and_then(|number| usize::try_from(number).ok())
    };
    lines.lines().filter_map(number).collect()
}

const CONFIG: &str = "[audit]\nsync = \"full\"\npayloads = \"redacted\"\n";

#[test]
fn every_answered_call_is_recorded_when_the_gateway_is_killed() {
    let home = Home::new();
    home.write(".config/toolyard/config.toml", CONFIG);
    let gateway = home.start(&[]);
    let (next, answered) = (AtomicUsize::new(0), Mutex::new(HashSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    match call(&gateway.url, number) {
                        Ok(true) => answered.lock().insert(number),
                        _ => return,
                    };
                }
            });
        }
        while answered.lock().len() < 1_000 && !is_stuck(&next) {
            std::thread::yield_now();
        }
        gateway.signal(Signal::SIGKILL);
    });
    let answered = answered.into_inner();
    assert!(answered.len() >= 1_000, "{} calls were answered", answered.len());
    let recorded = recorded(&home);
    let missing: Vec<&usize> = answered.difference(&recorded).collect();
    assert!(missing.is_empty(), "answered and not recorded: {missing:?}");
    let (code, words, _) = home.run(&["audit", "--verify", "--state-dir", "state"]);
    assert!(code == 0 && words.contains("records are as they were written"), "{words}");
}

/// More calls than this were begun without a thousand answers: the test fails instead of waiting.
fn is_stuck(next: &AtomicUsize) -> bool {
    next.load(Ordering::Relaxed) > 100_000
}

#[test]
fn records_are_searched_without_secrets_and_a_changed_one_is_found() {
    let home = Home::new();
    home.write(".config/toolyard/config.toml", CONFIG);
    let gateway = home.start(&[]);
    for number in 0..3 {
        assert!(call(&gateway.url, number).unwrap());
    }
    gateway.signal(Signal::SIGTERM);
    gateway.wait();
    let (code, lines, _) = home.run(&["audit", "--client", "audited", "--json", "--state-dir", "state"]);
    assert_eq!(code, 0);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(!lines.contains("s3cret") && lines.contains("[redacted]"), "{lines}");
    let search = |more: &[&str]| {
        let arguments = [&["audit", "--state-dir", "state"], more].concat();
        home.run(&arguments).1.lines().count()
    };
    assert_eq!(search(&["--tool", "yard:status", "--since", "1h"]), 3);
    assert_eq!(search(&["--status", "error"]), 0);
    assert_eq!(search(&["--since", "2999-01-01"]), 0);
    let database = home.path("state/audit.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let wal = home.path("state/audit.db-wal");
    assert!(!wal.exists() || std::fs::metadata(&wal).unwrap().len() == 0, "everything is in the file");
    // Pages may hold stale copies of a record, so all of them are changed.
    let is_it = |at: &usize| bytes[*at..].starts_with(b"\"view\":\"/mcp\"");
    for at in (0..bytes.len()).filter(is_it).collect::<Vec<_>>() {
        bytes[at + 9] = b'x';
    }
    std::fs::write(&database, bytes).unwrap();
    let (code, words, _) = home.run(&["audit", "--verify", "--state-dir", "state"]);
    assert!(code == 1 && words.contains("was changed"), "{code} {words}");
}

#[test]
fn digests_of_payloads_are_recorded_and_no_text_of_them() {
    let home = Home::new();
    // Digests are the default.
    home.write(".config/toolyard/config.toml", "[audit]\nsync = \"full\"\n");
    let gateway = home.start(&[]);
    for number in [70_001, 70_001, 70_002] {
        assert!(call(&gateway.url, number).unwrap());
    }
    gateway.signal(Signal::SIGTERM);
    gateway.wait();
    let (code, lines, _) = home.run(&["audit", "--client", "audited", "--json", "--state-dir", "state"]);
    let read = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let records: Vec<_> = lines.lines().map(read).collect();
    assert_eq!((code, records.len()), (0, 3), "{lines}");
    for record in &records {
        assert!(record["requestBytes"].as_u64() > Some(100), "{record}");
        assert!(record["answerBytes"].as_u64() > Some(100), "{record}");
        for field in ["requestDigest", "answerDigest"] {
            let digest = record[field].as_str().unwrap();
            assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{record}");
        }
        assert!(record.get("request").is_none() && record.get("answer").is_none(), "{record}");
    }
    let mut digests: Vec<_> = records.iter().map(|one| one["requestDigest"].to_string()).collect();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 2, "equal requests have one digest, others have another: {lines}");
    for file in ["state/audit.db", "state/audit.db-wal"] {
        let bytes = std::fs::read(home.path(file)).unwrap_or_default();
        for text in ["s3cret", "70001", "70002", "password"] {
            assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()), "{file} has {text}");
        }
    }
}

#[test]
fn config_audit_stderr_and_payloads_need_an_operator() {
    let home = Home::new();
    home.write(".config/toolyard/config.toml", CONFIG);
    let gateway = home.start(&[]);
    assert!(call(&gateway.url, 0).unwrap());
    let address = gateway.url.trim_start_matches("http://").split('/').next().unwrap();
    for request in [
        "GET /api/v1/audit",
        "GET /api/v1/audit/export",
        "GET /api/v1/audit/verify",
        "GET /api/v1/config",
        "POST /api/v1/config/servers",
        "POST /api/v1/config/servers/preview",
        "GET /api/v1/calls/1",
        "GET /api/v1/upstreams/yard/stderr",
        "GET /api/v1/logs",
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close";
        write!(stream, "{request} HTTP/1.1\r\nHost: {address}\r\n{head}\r\n\r\n{{}}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("operator_required"),
            "{request}: {answer}"
        );
    }
}
