//! What servers do wrong: each fault over each transport in each era, and what the caller receives. Another
//! server beside them must not notice, the one at fault must serve again, and nothing may be left over.

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use serde_json::json;

use crate::rogues::{Rogues, outcome};
use crate::usage::Usage;
use crate::wire::{Era, Transport};

/// How the call ends for its caller.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Well,
    /// Servers by name.
    Fails,
}

/// A fault and its outcome.
struct Fault {
    name: &'static str,
    what: &'static str,
    ends: Ends,
    /// Whether it serves again by itself.
    recovers: bool,
}

const fn fault(name: &'static str, what: &'static str, ends: Ends) -> Fault {
    Fault { name, what, ends, recovers: true }
}

const TABLE: &[Fault] = &[
    fault("dies", "killed in the middle of a call", Ends::Fails),
    fault("closes", "connection closed in a call", Ends::Fails),
    fault("half", "connection closed in an answer", Ends::Fails),
    fault("hangs", "half-open: no answer", Ends::Fails),
    fault("huge", "an answer of 100 MB", Ends::Fails),
    fault("garbage", "garbage before the answer", Ends::Well),
    fault("utf8", "invalid UTF-8", Ends::Fails),
    fault("deep", "deep nesting: carried as it is", Ends::Well),
    fault("twice", "two answers", Ends::Well),
    fault("unknown", "an answer to an unknown id", Ends::Well),
    fault("both", "a result and an error at once", Ends::Fails),
    fault("flood", "a flood of notifications", Ends::Well),
    fault("slow", "a slow writer", Ends::Well),
    fault("late", "the clock jumps in a call", Ends::Well),
    Fault { name: "deaf", what: "a slow reader", ends: Ends::Fails, recovers: false },
];

const COLUMNS: [(Transport, Era); 9] = [
    (Transport::Stdio, Era::Legacy),
    (Transport::Stdio, Era::Modern),
    (Transport::Tcp, Era::Legacy),
    (Transport::Tcp, Era::Modern),
    (Transport::Unix, Era::Legacy),
    (Transport::Unix, Era::Modern),
    (Transport::Http, Era::Legacy),
    (Transport::Http, Era::Modern),
    (Transport::Sse, Era::Legacy),
];

/// Two gateways at a time.
const AT_ONCE: usize = 2;
/// So long that only something broken takes longer, on a busy machine too.
const PATIENCE: Duration = Duration::from_mins(1);
/// How much memory an allocator may keep after the largest answers.
const KEPT: u64 = 400_000;

#[test]
fn every_fault_of_a_server_ends_its_call_and_nothing_else() {
    let mut columns: Vec<Vec<Result<(), String>>> = Vec::new();
    for pair in COLUMNS.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let started: Vec<_> =
                pair.iter().map(|(over, era)| scope.spawn(|| column(*over, *era))).collect();
            columns.extend(
                started.into_iter().map(|column| column.join().unwrap_or_else(|panic| panicked(&panic))),
            );
        });
    }
    let mut failures = Vec::new();
    let heads: Vec<String> = COLUMNS
        .iter()
        .map(|(over, era)| {
            format!("{:<9}", format!("{over:?}{}", if *era == Era::Modern { "+" } else { "" }))
        })
        .collect();
    println!("{:<34} {}   (+ is modern)", "", heads.concat());
    for (at, what) in TABLE.iter().map(|fault| fault.what).chain(["all is as it was before"]).enumerate() {
        let mut row = format!("{what:<34} ");
        for (column, (over, era)) in columns.iter().zip(COLUMNS) {
            row.push_str(match &column[at] {
                Ok(()) => "ok       ",
                Err(_) => "FAIL     ",
            });
            if let Err(why) = &column[at] {
                failures.push(format!("{what} / {over:?} / {era:?}: {why}"));
            }
        }
        println!("{row}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Vec<Result<(), String>> {
    let why = panic.downcast_ref::<String>().map_or("it panicked", String::as_str);
    TABLE.iter().map(|_| Ok(())).chain([Err(why.chars().take(500).collect())]).collect()
}

/// An outcome for each fault, and one for what is left at the end.
fn column(over: Transport, era: Era) -> Vec<Result<(), String>> {
    let names: Vec<&str> = TABLE.iter().map(|fault| fault.name).collect();
    let rogues = Rogues::start(&names, over, era);
    for name in names.iter().chain(&["good"]) {
        if let Err(why) = serves(&rogues, name) {
            return TABLE.iter().map(|_| Err(why.clone())).chain([Ok(())]).collect();
        }
    }
    let before = rogues.usage();
    let mut outcomes: Vec<_> = TABLE.iter().map(|fault| cell(&rogues, fault)).collect();
    outcomes.push(as_before(&rogues, before));
    outcomes
}

/// The call ends as it should, a good server beside it answers at once, and the same server serves again.
fn cell(rogues: &Rogues, fault: &Fault) -> Result<(), String> {
    let ended = call(rogues, fault);
    let as_expected = match fault.ends {
        Ends::Well => ended == Ok("well".to_owned()),
        // The error of a failed call names the upstream.
        Ends::Fails => ended.as_ref().is_err_and(|why| why.contains(fault.name)),
    };
    if !as_expected {
        return Err(format!(
            "{:?} instead of {:?}",
            ended.map(|text| text.chars().take(200).collect::<String>()),
            fault.ends
        ));
    }
    let beside = rogues.go("good", &json!({}));
    if beside != Ok("well".to_owned()) {
        return Err(format!("the server beside it: {beside:?}"));
    }
    if fault.name == "dies" {
        rogues.restart(fault.name);
    }
    if fault.recovers { serves(rogues, fault.name) } else { Ok(()) }
}

fn call(rogues: &Rogues, fault: &Fault) -> Result<String, String> {
    match fault.name {
        // More than pipes and sockets hold.
        "deaf" => rogues.go(fault.name, &json!({ "text": "x".repeat(12 * 1024 * 1024) })),
        // To a process that was stopped, time has jumped.
        "late" => {
            let answer = rogues.call(fault.name, &json!({}));
            thread::sleep(Duration::from_millis(200));
            kill(rogues.gateway(), Signal::SIGSTOP).unwrap();
            thread::sleep(Duration::from_secs(3));
            kill(rogues.gateway(), Signal::SIGCONT).unwrap();
            outcome(answer)
        }
        name => rogues.go(name, &json!({})),
    }
}

/// Until it answers as it should.
fn serves(rogues: &Rogues, name: &str) -> Result<(), String> {
    eventually(|| match rogues.go(name, &json!({ "calm": true })) {
        Ok(text) if text == "well" => Ok(()),
        other => Err(format!("{name} does not serve: {other:?}")),
    })
}

/// Files, children and tasks are as many as before, and memory growth is bounded.
fn as_before(rogues: &Rogues, before: Usage) -> Result<(), String> {
    eventually(|| {
        let now = rogues.usage();
        if now.is_like(before, KEPT) { Ok(()) } else { Err(format!("{before:?}, and then {now:?}")) }
    })
}

fn eventually(mut look: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match look() {
            Err(_) if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(50)),
            outcome => return outcome,
        }
    }
}
