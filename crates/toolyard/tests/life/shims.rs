//! The same kills where clients run `toolyard stdio`: shim, gateway, guard and child, one alone and all in
//! every order, fifty rounds of each. The client of a shim that survives keeps working in every round.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use toolyard_model::processes::Process;

use crate::yard::{Yard, command_line, none, soon, within};

/// The time limit after one kill, for everything that depends on the killed process.
const AFTER_ONE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Shim,
    Gateway,
    Guard,
    Child,
}

const VICTIMS: [Victim; 4] = [Victim::Shim, Victim::Gateway, Victim::Guard, Victim::Child];

/// A client with its shim. Killed when dropped.
pub(crate) struct Client {
    shim: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    next: u64,
}

impl Client {
    /// The handshake is done, so the gateway is ready.
    pub(crate) fn start(yard: &Yard) -> Self {
        Self::start_with(yard, &[])
    }

    /// The same with more flags.
    pub(crate) fn start_with(yard: &Yard, flags: &[&str]) -> Self {
        let mut shim = yard.stdio();
        shim.args(flags);
        Self::run(shim)
    }

    /// With this command of the shim.
    pub(crate) fn run(mut shim: Command) -> Self {
        let mut shim = shim.spawn().unwrap();
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

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
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

    /// Waits until the tool works: at once, or once its upstream is back.
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

/// Shims, gateway, guard, child, and the two that the child leaves behind.
fn family(yard: &Yard, shims: usize) -> Vec<Process> {
    soon("the whole family", || {
        let family = yard.processes();
        let asleep = family.iter().filter(|process| command_line(process.id).starts_with("sleep")).count();
        if family.len() == shims + 5 && asleep == 2 { Ok(family) } else { Err(format!("{family:?}")) }
    })
}

/// If the victim is a shim, it is that of `client`.
fn find(family: &[Process], victim: Victim, client: &Client) -> Process {
    let is = |process: &&Process| {
        let line = command_line(process.id);
        match victim {
            Victim::Shim => process.id == i32::try_from(client.shim.id()).unwrap(),
            Victim::Gateway => line.contains("toolyard serve "),
            Victim::Guard => line.contains("toolyard guard "),
            Victim::Child => line.starts_with("sh upstream.sh "),
        }
    };
    *family.iter().find(is).unwrap()
}

/// The victim and everything that depends on it is gone in two seconds. All other processes are still there,
/// and so is the client whose shim was left alone. A gateway starts a child that dies again and again ever more
/// slowly, so only a few rounds are with the same gateway.
fn check_one(victim: Victim, rounds: usize) {
    let yard = Yard::new(&["forks"]);
    let (mut stays, mut other) = (Client::start(&yard), Client::start(&yard));
    for round in 0..rounds {
        stays.works();
        other.works();
        let family = family(&yard, 2);
        let goes = |process: &Process| match victim {
            Victim::Shim => *process == find(&family, Victim::Shim, &other),
            Victim::Gateway => !command_line(process.id).contains("toolyard stdio "),
            Victim::Guard | Victim::Child => {
                let line = command_line(process.id);
                !line.contains("toolyard stdio ") && !line.contains("toolyard serve ")
            }
        };
        let (goes, lives_on): (Vec<Process>, Vec<Process>) = family.iter().copied().partition(goes);
        find(&family, victim, &other).signal(Signal::SIGKILL);
        within(AFTER_ONE, &format!("round {round}, {victim:?}"), || none(&yard.left_of(&goes)));
        stays.works();
        assert_eq!(yard.left_of(&lives_on).len(), lives_on.len(), "round {round}, {victim:?}: {lives_on:?}");
        if victim == Victim::Shim {
            other = Client::start(&yard);
        }
    }
}

#[test]
fn a_killed_shim_does_not_affect_the_other_client() {
    check_one(Victim::Shim, 10);
}

#[test]
fn clients_outlive_their_gateway() {
    check_one(Victim::Gateway, 10);
}

#[test]
fn clients_outlive_a_guard() {
    (0..5).for_each(|_| check_one(Victim::Guard, 2));
}

#[test]
fn clients_outlive_a_child() {
    (0..5).for_each(|_| check_one(Victim::Child, 2));
}

#[test]
fn a_killed_shim_ends_its_gateway_if_no_other_client_uses_it() {
    let yard = Yard::new(&["forks"]);
    for round in 0..10 {
        let mut client = Client::start(&yard);
        client.works();
        let family = family(&yard, 1);
        find(&family, Victim::Shim, &client).signal(Signal::SIGKILL);
        within(AFTER_ONE, &format!("round {round}"), || none(&yard.left_of(&family)));
    }
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

/// All four are killed, with a pause after each. The surviving shim starts the next gateway: once its client
/// works, nothing is left of those that were killed.
fn check_all(rounds: std::ops::Range<usize>) {
    let (yard, orders) = (Yard::new(&["forks"]), orders());
    let mut stays = Client::start(&yard);
    for round in rounds {
        let mut other = Client::start(&yard);
        other.works();
        let order = orders[round % orders.len()];
        let family = family(&yard, 2);
        let pause = Duration::from_millis([0, 2, 20, 100][round / 2 % 4]);
        for victim in order.map(|victim| find(&family, victim, &other)) {
            victim.signal(Signal::SIGKILL);
            thread::sleep(pause);
        }
        drop(other);
        stays.works();
        let own = find(&family, Victim::Shim, &stays);
        let goes: Vec<Process> = family.into_iter().filter(|process| *process != own).collect();
        assert_eq!(yard.left_of(&goes), [] as [&str; 0], "{order:?} with {pause:?} between");
    }
}

#[test]
fn after_kills_in_every_order_the_surviving_client_works_and_nothing_is_left() {
    check_all(0..25);
}

#[test]
fn after_kills_in_every_order_again_the_surviving_client_works_and_nothing_is_left() {
    check_all(25..50);
}

#[test]
fn nothing_is_left_of_killed_processes_when_the_next_client_starts() {
    let yard = Yard::new(&["forks"]);
    let mut client = Client::start(&yard);
    for order in orders() {
        client.works();
        let family = family(&yard, 1);
        for victim in order.map(|victim| find(&family, victim, &client)) {
            victim.signal(Signal::SIGKILL);
        }
        client = Client::start(&yard);
        assert_eq!(yard.left_of(&family), [] as [&str; 0], "{order:?}");
    }
}
