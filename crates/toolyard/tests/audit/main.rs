//! The audit through the real program: what is recorded, who may read it, and what a kill leaves.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

#[expect(dead_code, reason = "shared with other tests")]
#[path = "../cli/gateway.rs"]
mod gateway;
#[path = "../support/testkit.rs"]
mod testkit;

mod traces;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gateway::Home;
use nix::sys::signal::Signal;

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
                        Ok(true) => answered.lock().unwrap().insert(number),
                        _ => return,
                    };
                }
            });
        }
        while answered.lock().unwrap().len() < 1_000 && !is_stuck(&next) {
            std::thread::yield_now();
        }
        gateway.signal(Signal::SIGKILL);
    });
    let answered = answered.into_inner().unwrap();
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
