//! Extreme clients: they disconnect during a call, read a byte a second, or connect by the thousand.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;

use crate::gateway::eventually;
use crate::slow::Slow;
use crate::usage::open_files;
use crate::wire::{Era, Transport, Wire};
use crate::yard::Yard;
use crate::{HANG, Outcome, works};

type Does = fn(&Yard, &mut Wire, Transport, Era) -> Outcome;

pub(crate) const TABLE: [(&str, Does); 3] = [
    ("leaves in a call", |yard, bystander, transport, era| Some(leaves(yard, bystander, transport, era))),
    ("reads a byte a second", |yard, bystander, transport, era| Some(reads(yard, bystander, transport, era))),
    ("5,000 connections", comes_by_thousands),
];

const CANCELLED: &str = "notifications/cancelled";
const CROWD: usize = 5_000;
/// How many slow clients there are, and how many bytes each is given time for.
const SLOW: usize = 4;
const BYTES: usize = 3;
/// How much memory thousands of unread answers may hold.
const HELD: u64 = 150_000;

/// The call is cancelled upstream if the disconnect ends the session.
fn leaves(yard: &Yard, bystander: &mut Wire, transport: Transport, era: Era) -> Result<(), String> {
    let mut wire = Wire::connect(yard, transport, era);
    let (calls, cancels) = (yard.received(HANG), yard.received(CANCELLED));
    wire.send(wire.request("1", "tools/call", json!({ "name": "sh__hang", "arguments": {} })));
    eventually("the call", || (yard.received(HANG) > calls).then_some(()));
    wire.hang_up();
    // A lost connection cancels nothing for a client that can come back to its session; the end of the session does.
    if (transport, era) == (Transport::Http, Era::Legacy) {
        works(bystander, "bystander")?;
        let now = yard.received(CANCELLED);
        (now == cancels).then_some(()).ok_or("it was cancelled when the connection was lost")?;
        drop(wire);
    }
    eventually("the cancel", || (yard.received(CANCELLED) == cancels + 1).then_some(()));
    works(bystander, "bystander")
}

fn reads(yard: &Yard, bystander: &mut Wire, transport: Transport, era: Era) -> Result<(), String> {
    let before = yard.usage();
    let slow: Vec<Slow> = (0..SLOW).map(|_| Slow::connect(yard, transport, era)).collect();
    eventually("a few bytes for all", || {
        works(bystander, "bystander").unwrap();
        slow.iter().all(|slow| slow.bytes() >= BYTES).then_some(())
    });
    let held = yard.usage().kilobytes.saturating_sub(before.kilobytes);
    (held < HELD).then_some(()).ok_or(format!("{held} kB are held for slow readers"))?;
    drop(slow);
    eventually("the files of slow clients closed", || {
        (open_files(&yard.gateway) <= before.files).then_some(())
    });
    Ok(())
}

/// No message has been sent, so the connections have no era; and on stdio each is a process with one local connection.
fn comes_by_thousands(yard: &Yard, bystander: &mut Wire, transport: Transport, era: Era) -> Outcome {
    if era == Era::Modern || transport == Transport::Stdio {
        return None;
    }
    allow_files(12_000);
    let before = open_files(&yard.gateway);
    let crowd: Vec<Box<dyn Write>> = (0..CROWD).map(|_| connect(yard, transport)).collect();
    let outcome = works(bystander, "bystander").and_then(|()| match transport {
        Transport::Tcp => refused(yard, before),
        _ => Ok(()),
    });
    drop(crowd);
    eventually("all closed", || (open_files(&yard.gateway) <= before).then_some(()));
    Some(outcome.and_then(|()| works(&mut Wire::connect(yard, transport, Era::Legacy), "a newcomer")))
}

fn connect(yard: &Yard, transport: Transport) -> Box<dyn Write> {
    match transport {
        Transport::Tcp => Box::new(TcpStream::connect(&yard.tcp).unwrap()),
        Transport::Unix => Box::new(UnixStream::connect(&yard.unix).unwrap()),
        _ => {
            let mut stream = TcpStream::connect(&yard.http).unwrap();
            if transport == Transport::Sse {
                write!(
                    stream,
                    "GET /sse HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\r\n",
                    yard.http
                )
                .unwrap();
            }
            Box::new(stream)
        }
    }
}

/// A connection beyond the limit receives an error.
fn refused(yard: &Yard, before: usize) -> Result<(), String> {
    eventually("all accepted", || (open_files(&yard.gateway) >= before + CROWD).then_some(()));
    let word = Wire::connect(yard, Transport::Tcp, Era::Modern).next().ok_or("no word for one too many")?;
    let is_explained =
        word["error"]["message"].as_str().is_some_and(|text| text.contains("too many connections"));
    is_explained.then_some(()).ok_or(word.to_string())
}

fn allow_files(wanted: u64) {
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if now < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted.min(most), most).unwrap();
    }
}
