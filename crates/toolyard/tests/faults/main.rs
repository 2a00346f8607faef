//! Faults of clients and their effects: every fault on every transport in both eras, with another
//! client beside it that must not notice. `upstreams` is the same for faults of servers. Run with
//! `--nocapture` to see the tables.

#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]
#![expect(clippy::print_stdout, reason = "the outcome is a table for people")]

#[path = "../cli/gateway.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod gateway;
#[path = "../cli/http.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod http;
#[path = "../support/testkit.rs"]
mod testkit;
mod extremes;
mod rogues;
mod slow;
mod table;
mod upstreams;
mod usage;
mod wire;
mod yard;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use gateway::eventually;
use serde_json::{Value, json};
use table::{Expected, Fault, TABLE};
use wire::{Era, Transport, Wire};
use yard::Yard;

/// A call that is not answered, as the server receives it.
const HANG: &str = "\"name\":\"hang\"";
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
/// How much memory an allocator may keep after ten messages of 64 MiB, and after thousands of small ones.
const KEPT: u64 = 300_000;

#[test]
fn every_fault_gets_its_answer_on_every_transport_and_no_other_client_notices() {
    let yard = Yard::open();
    let mut bystander = Wire::connect(&yard, Transport::Unix, Era::Modern);
    works(&mut bystander, "warm-up").unwrap();
    let before = yard.usage();
    let mut failures = Vec::new();
    let heads = Transport::ALL.map(|transport| format!("{:<12}", format!("{transport:?}")));
    println!("{:<28} {}", "", heads.concat());
    let mut print_row = |name: &str, cell: &mut dyn FnMut(Transport, Era) -> Outcome| {
        let mut row = format!("{name:<28} ");
        for (transport, era) in Transport::ALL.into_iter().flat_map(|over| ERAS.map(|era| (over, era))) {
            let outcome = cell(transport, era);
            row.push_str(match &outcome {
                None => "-     ",
                Some(Ok(())) => "ok    ",
                Some(Err(_)) => "FAIL  ",
            });
            if let Some(Err(why)) = outcome {
                failures.push(format!("{name} / {transport:?} / {era:?}: {why}"));
            }
        }
        println!("{row}");
    };
    for fault in TABLE {
        print_row(fault.name, &mut |transport, era| cell(&yard, &mut bystander, fault, transport, era));
    }
    for (name, does) in extremes::TABLE {
        print_row(name, &mut |transport, era| caught(|| does(&yard, &mut bystander, transport, era)));
    }
    println!("{:<28} {}", "", "old   new   ".repeat(5));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    drop(bystander);
    let mut after = before;
    let is_over = std::iter::repeat_with(|| yard.usage()).take(200).any(|now| {
        std::thread::sleep(Duration::from_millis(50));
        after = now;
        now.is_like(before, KEPT)
    });
    println!("{before:?} before, {after:?} after");
    assert!(is_over, "{before:?} before, {after:?} after");
}

/// `None` where something cannot happen.
type Outcome = Option<Result<(), String>>;

fn caught(attempt: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        Some(Err(words.unwrap_or_else(|| "it panicked".into())))
    })
}

/// One fault by one client.
fn cell(yard: &Yard, bystander: &mut Wire, fault: &Fault, transport: Transport, era: Era) -> Outcome {
    let expected = (fault.expects)(transport, era)?;
    let mut attempt = || {
        let mut wire = Wire::connect(yard, transport, era);
        for bytes in (fault.does)(&wire, transport) {
            // Two connections may overtake each other, so a hanging call must have arrived before the next message is sent.
            let hangs =
                bytes.starts_with(b"{") && bytes.windows(8).take(1_000).any(|part| part == b"sh__hang");
            let before = if hangs { yard.received(HANG) } else { 0 };
            wire.send(bytes);
            if hangs {
                eventually("the call", || (yard.received(HANG) > before).then_some(()));
            }
        }
        let ends = fault.ends_lines && transport.is_lines();
        check_received(&mut wire, &expected, ends)?;
        works(bystander, "bystander")
    };
    caught(|| Some(attempt()))
}

/// Everything that is expected is received, and nothing else; then the client still works, or its connection ends.
fn check_received(wire: &mut Wire, expected: &[Expected], ends: bool) -> Result<(), String> {
    let mut left = expected.to_vec();
    let mut works_on = ends;
    if !ends {
        wire.send(wire.request("\"probe\"", "tools/list", json!({})));
    }
    while !left.is_empty() || !works_on {
        let Some(message) = wire.next() else { return Err(format!("the end, instead of {left:?}")) };
        if message["id"] == "probe" {
            works_on = message["result"].is_object();
            continue;
        }
        match left.iter().position(|received| fits(received, &message)) {
            Some(at) => drop(left.remove(at)),
            None => return Err(format!("{message}, instead of {left:?}")),
        }
    }
    if ends { wire.next().map_or(Ok(()), |more| Err(format!("{more}, instead of the end"))) } else { Ok(()) }
}

fn fits(received: &Expected, message: &Value) -> bool {
    match received {
        Expected::Error(code) => message["error"]["code"] == *code,
        Expected::Echo(id) => {
            message["result"].is_object() && message["id"] == serde_json::from_str::<Value>(id).unwrap()
        }
        Expected::Status(status) => message["status"] == *status,
    }
}

/// A client is served, and quickly.
fn works(wire: &mut Wire, who: &str) -> Result<(), String> {
    let asked = Instant::now();
    let call = wire.request("\"works\"", "tools/call", json!({ "name": "sh__say", "arguments": {} }));
    wire.send(wire.request("\"list\"", "tools/list", json!({})));
    while wire.next().ok_or("the connection ended")?["id"] != "list" {}
    wire.send(call);
    loop {
        let message = wire.next().ok_or_else(|| format!("{who}: the connection ended"))?;
        if message["id"] == "works" {
            let is_right = message["result"]["content"][0]["text"] == "hello";
            let late = asked.elapsed() > Duration::from_secs(5);
            return if is_right && !late {
                Ok(())
            } else {
                Err(format!("{who}: {message} after {:?}", asked.elapsed()))
            };
        }
    }
}
