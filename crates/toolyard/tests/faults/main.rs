//! What clients do wrong, and what becomes of it: every fault on every transport in both eras, with another
//! client beside it that must not notice. `upstreams` is the same for what servers do wrong. Run with
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
mod rogues;
mod table;
mod upstreams;
mod wire;
mod yard;

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use gateway::eventually;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use table::{Fault, Heard, TABLE};
use wire::{Era, Transport, Wire};
use yard::Yard;

/// A call that is not answered, as the server hears it.
const HANG: &str = "\"name\":\"hang\"";
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[test]
fn every_fault_gets_its_answer_on_every_transport_and_nobody_else_notices() {
    let yard = Yard::open();
    let mut bystander = Wire::connect(&yard, Transport::Unix, Era::Modern);
    works(&mut bystander, "warm-up").unwrap();
    let before = yard.usage();
    let mut failures = Vec::new();
    println!(
        "{:<28} {}",
        "",
        Transport::ALL.map(|transport| format!("{:<12}", format!("{transport:?}"))).concat()
    );
    for fault in TABLE {
        let mut row = format!("{:<28} ", fault.name);
        for transport in Transport::ALL {
            for era in ERAS {
                let outcome = cell(&yard, &mut bystander, fault, transport, era);
                row.push_str(match &outcome {
                    None => "-     ",
                    Some(Ok(())) => "ok    ",
                    Some(Err(_)) => "FAIL  ",
                });
                if let Some(Err(why)) = outcome {
                    failures.push(format!("{} / {transport:?} / {era:?}: {why}", fault.name));
                }
            }
        }
        println!("{row}");
    }
    println!("{:<28} {}", "", "old   new   ".repeat(5));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    drop(bystander);
    eventually("the files of all clients closed", || (yard.usage().0 <= before.0).then_some(()));
    let grown = yard.usage().1.saturating_sub(before.1);
    println!("open files {} before and {} after; {grown} kB of memory more", before.0, yard.usage().0);
}

/// One fault by one client. `None`: it cannot happen there.
fn cell(
    yard: &Yard,
    bystander: &mut Wire,
    fault: &Fault,
    transport: Transport,
    era: Era,
) -> Option<Result<(), String>> {
    let expected = (fault.hears)(transport, era)?;
    let attempt = AssertUnwindSafe(|| {
        let mut wire = Wire::connect(yard, transport, era);
        for bytes in (fault.does)(&wire, transport) {
            // Two connections may overtake each other, so a call that stays has to be there before the next.
            let hangs =
                bytes.starts_with(b"{") && bytes.windows(8).take(1_000).any(|part| part == b"sh__hang");
            let before = if hangs { yard.heard(HANG) } else { 0 };
            wire.send(bytes);
            if hangs {
                eventually("the call", || (yard.heard(HANG) > before).then_some(()));
            }
        }
        let ends = fault.ends_lines && transport.is_lines();
        hear(&mut wire, &expected, ends)?;
        works(bystander, "bystander")
    });
    Some(catch_unwind(attempt).unwrap_or_else(|panic| {
        Err(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "it panicked".into()))
    }))
}

/// Everything that is expected is heard, and nothing else; then the client still works, or its connection ends.
fn hear(wire: &mut Wire, expected: &[Heard], ends: bool) -> Result<(), String> {
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
        match left.iter().position(|heard| fits(heard, &message)) {
            Some(at) => drop(left.remove(at)),
            None => return Err(format!("{message}, instead of {left:?}")),
        }
    }
    if ends { wire.next().map_or(Ok(()), |more| Err(format!("{more}, instead of the end"))) } else { Ok(()) }
}

fn fits(heard: &Heard, message: &Value) -> bool {
    match heard {
        Heard::Error(code) => message["error"]["code"] == *code,
        Heard::Echo(id) => {
            message["result"].is_object() && message["id"] == serde_json::from_str::<Value>(id).unwrap()
        }
        Heard::Status(status) => message["status"] == *status,
    }
}

/// A client is served, and soon.
fn works(wire: &mut Wire, who: &str) -> Result<(), String> {
    let asked = Instant::now();
    let call = wire.request("\"works\"", "tools/call", json!({ "name": "sh__say", "arguments": {} }));
    wire.send(wire.request("\"list\"", "tools/list", json!({})));
    while wire.next().ok_or("the connection ended")?["id"] != "list" {}
    wire.send(call);
    loop {
        let message = wire.next().ok_or_else(|| format!("{who}: the connection ended"))?;
        if message["id"] == "works" {
            let said = message["result"]["content"][0]["text"] == "said";
            let late = asked.elapsed() > Duration::from_secs(5);
            return if said && !late {
                Ok(())
            } else {
                Err(format!("{who}: {message} after {:?}", asked.elapsed()))
            };
        }
    }
}

#[test]
fn a_client_that_leaves_in_a_call_cancels_it_upstream_where_leaving_means_that() {
    let yard = Yard::open();
    works(&mut Wire::connect(&yard, Transport::Unix, Era::Modern), "warm-up").unwrap();
    let mut expected = 0;
    for transport in Transport::ALL {
        for era in ERAS {
            let mut wire = Wire::connect(&yard, transport, era);
            let calls = yard.heard(HANG);
            wire.send(wire.request("1", "tools/call", json!({ "name": "sh__hang", "arguments": {} })));
            eventually("the call", || (yard.heard(HANG) > calls).then_some(()));
            drop(wire);
            // A lost connection is no cancel for a client that can come back to its session.
            if (transport, era) != (Transport::Http, Era::Legacy) {
                expected += 1;
            }
            eventually("the cancel", || (yard.heard("notifications/cancelled") == expected).then_some(()));
            println!("{transport:?} {era:?}: ok");
        }
    }
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody() {
    let yard = Yard::open();
    let mut bystander = Wire::connect(&yard, Transport::Tcp, Era::Modern);
    works(&mut bystander, "warm-up").unwrap();
    let before = yard.usage().0;
    let slow: Vec<_> = (0..20).map(|_| flood(&yard)).collect();
    for _ in 0..20 {
        works(&mut bystander, "bystander").unwrap();
    }
    let memory = yard.usage().1;
    assert!(memory < 500_000, "{memory} kB");
    drop(slow);
    eventually("the files of slow clients closed", || (yard.usage().0 <= before + 1).then_some(()));
}

/// A client that asks a thousand times and reads one byte of the answers.
fn flood(yard: &Yard) -> TcpStream {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(&yard.tcp).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    for id in 0..1_000 {
        let request =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "_meta": meta } });
        // Once the gateway takes no more, the point is made.
        if writeln!(stream, "{request}").is_err() {
            break;
        }
    }
    stream.read_exact(&mut [0]).unwrap();
    stream
}

#[test]
fn five_thousand_connections_leave_room_for_the_others() {
    allow_files(12_000);
    let yard = Yard::open();
    let mut bystander = Wire::connect(&yard, Transport::Unix, Era::Modern);
    works(&mut bystander, "warm-up").unwrap();
    let before = yard.usage();
    {
        let tcp: Vec<_> = (0..5_000).map(|_| TcpStream::connect(&yard.tcp).unwrap()).collect();
        works(&mut bystander, "bystander").unwrap();
        eventually("all accepted", || (yard.usage().0 >= before.0 + 5_000).then_some(()));
        let mut refused = Wire::connect(&yard, Transport::Tcp, Era::Modern);
        let word = refused.next().unwrap();
        assert!(word["error"]["message"].as_str().unwrap().contains("too many connections"), "{word}");
        println!("5,000 on TCP: {} kB of memory", yard.usage().1 - before.1);
        drop(tcp);
    }
    eventually("all closed", || (yard.usage().0 <= before.0).then_some(()));
    {
        let unix: Vec<_> = (0..4_900).map(|_| UnixStream::connect(&yard.unix).unwrap()).collect();
        works(&mut bystander, "bystander").unwrap();
        drop(unix);
    }
    {
        let http: Vec<_> = (0..5_000).map(|_| TcpStream::connect(&yard.http).unwrap()).collect();
        works(&mut bystander, "bystander").unwrap();
        drop(http);
    }
    eventually("all closed", || (yard.usage().0 <= before.0).then_some(()));
    works(&mut Wire::connect(&yard, Transport::Http, Era::Legacy), "a newcomer").unwrap();
}

fn allow_files(wanted: u64) {
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if now < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted.min(most), most).unwrap();
    }
}
