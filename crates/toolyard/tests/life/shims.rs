//! The same kills where a client runs `toolyard stdio`: shim, gateway, guard and child, in every order.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use toolyard_transport::child::processes::Process;

use crate::yard::{Yard, command_line, none, soon, within};

/// After one kill, for everything that hung on it.
const AFTER_ONE: Duration = Duration::from_secs(2);
/// A gateway that was started for a client waits this much longer for another.
const NEXT_CLIENT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Shim,
    Gateway,
    Guard,
    Child,
}

const VICTIMS: [Victim; 4] = [Victim::Shim, Victim::Gateway, Victim::Guard, Victim::Child];

/// A client with its shim. Killed when dropped.
struct Client {
    shim: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    next: u64,
}

impl Client {
    /// With the handshake done, so the gateway is ready.
    fn start(yard: &Yard) -> Self {
        let mut shim = yard.stdio().spawn().unwrap();
        let (stdin, stdout) = (shim.stdin.take().unwrap(), BufReader::new(shim.stdout.take().unwrap()));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        let mut client = Self { shim, stdin, lines, next: 0 };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let greeting = client.ask("initialize", &params);
        assert!(greeting.get("result").is_some(), "{greeting}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(20)).unwrap();
            if line["id"] == id {
                return line;
            }
        }
    }

    /// Until the tool works, as it does at once or once its upstream is back.
    fn works(&mut self) {
        soon("the tool works", || {
            let answer = self.ask("tools/call", &json!({ "name": "forks__go", "arguments": {} }));
            if answer["result"]["content"][0]["text"] == "well" { Ok(()) } else { Err(answer.to_string()) }
        });
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.shim.kill();
        let _ = self.shim.wait();
    }
}

/// Shim, gateway, guard, child, and the two that the child leaves behind.
fn family(yard: &Yard) -> Vec<Process> {
    soon("six processes", || {
        let family = yard.processes();
        let asleep = family.iter().filter(|process| command_line(process.id).starts_with("sleep")).count();
        if family.len() == 6 && asleep == 2 { Ok(family) } else { Err(format!("{family:?}")) }
    })
}

fn find(family: &[Process], victim: Victim) -> Process {
    let word = match victim {
        Victim::Shim => "toolyard stdio ",
        Victim::Gateway => "toolyard serve ",
        Victim::Guard => "toolyard guard ",
        Victim::Child => "sh upstream.sh ",
    };
    let is = |process: &&Process| {
        let line = command_line(process.id);
        line.contains(word) && (victim != Victim::Child || line.starts_with(word))
    };
    *family.iter().find(is).unwrap()
}

/// Whoever hung on the victim is gone in time, and a client that has kept its shim keeps working.
fn check_one(victim: Victim) {
    let yard = Yard::new(&["forks"]);
    let mut client = Client::start(&yard);
    for round in 0..3 {
        client.works();
        let family = family(&yard);
        let lives_on: &[Victim] = match victim {
            Victim::Shim => &[],
            Victim::Gateway => &[Victim::Shim],
            Victim::Guard | Victim::Child => &[Victim::Shim, Victim::Gateway],
        };
        let lives_on: Vec<Process> = lives_on.iter().map(|other| find(&family, *other)).collect();
        find(&family, victim).signal(Signal::SIGKILL);
        let goes: Vec<Process> = family.into_iter().filter(|process| !lives_on.contains(process)).collect();
        let limit = if victim == Victim::Shim { NEXT_CLIENT + AFTER_ONE } else { AFTER_ONE };
        within(limit, &format!("round {round}, {victim:?}"), || none(&yard.left_of(&goes)));
        if victim == Victim::Shim {
            client = Client::start(&yard);
        }
    }
    client.works();
}

#[test]
fn a_shim_that_is_killed_takes_its_gateway_along() {
    check_one(Victim::Shim);
}

#[test]
fn a_client_outlives_its_gateway() {
    check_one(Victim::Gateway);
}

#[test]
fn a_client_outlives_guards_and_children() {
    check_one(Victim::Guard);
    check_one(Victim::Child);
}

fn orders() -> Vec<[Victim; 4]> {
    let mut orders = Vec::new();
    for code in 0..256_usize {
        let order = [6, 4, 2, 0].map(|shift| VICTIMS[(code >> shift) & 3]);
        if VICTIMS.iter().all(|victim| order.contains(victim)) {
            orders.push(order);
        }
    }
    orders
}

#[test]
fn the_next_client_finds_nothing_left_of_those_killed_before_it() {
    let yard = Yard::new(&["forks"]);
    let mut client = Client::start(&yard);
    for (round, order) in orders().into_iter().enumerate() {
        client.works();
        let family = family(&yard);
        let pause = Duration::from_millis([0, 2, 20][round % 3]);
        for victim in order.map(|victim| find(&family, victim)) {
            victim.signal(Signal::SIGKILL);
            thread::sleep(pause);
        }
        client = Client::start(&yard);
        assert_eq!(yard.left_of(&family), [] as [&str; 0], "{order:?} with {pause:?} between");
    }
}
