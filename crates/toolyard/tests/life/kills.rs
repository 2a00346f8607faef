//! `kill -9` of gateway, guard and child, alone and in every order. The child has a helper in its group and
//! one in a session of its own, both deaf to TERM: five processes each time, and none may be left.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use toolyard_model::processes::Process;

use crate::yard::{Gateway, Yard, command_line, none, soon, within};
use crate::{http, wire};

/// The time limit after one kill, for everything that depends on the killed process.
const AFTER_ONE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Gateway,
    Guard,
    Child,
}

const ORDERS: [[Victim; 3]; 6] = {
    use Victim::{Child, Gateway, Guard};
    [
        [Gateway, Guard, Child],
        [Gateway, Child, Guard],
        [Guard, Gateway, Child],
        [Guard, Child, Gateway],
        [Child, Gateway, Guard],
        [Child, Guard, Gateway],
    ]
};

/// A gateway whose one upstream is up, with all its processes.
struct Scene {
    gateway: Gateway,
    family: Vec<Process>,
}

impl Scene {
    fn set(yard: &Yard, gateway: Gateway) -> Self {
        let family = soon("five processes", || {
            let family = yard.processes();
            let asleep =
                family.iter().filter(|process| command_line(process.id).starts_with("sleep")).count();
            let is_up = family.len() == 5 && asleep == 2 && gateway.upstream("forks")["state"] == "active";
            if is_up { Ok(family) } else { Err(format!("{family:?}")) }
        });
        Self { gateway, family }
    }

    fn find(&self, victim: Victim) -> Process {
        let is = |process: &Process| match victim {
            Victim::Gateway => process.id == self.gateway.id(),
            Victim::Guard => command_line(process.id).starts_with("toolyard guard"),
            Victim::Child => command_line(process.id).starts_with("sh upstream.sh"),
        };
        *self.family.iter().find(|process| is(process)).unwrap()
    }

    /// All processes but the gateway.
    fn below(&self) -> Vec<Process> {
        self.family.iter().copied().filter(|process| process.id != self.gateway.id()).collect()
    }
}

/// Each round has its own gateway; the upstream is up again where the gateway survives.
fn check_one(victim: Victim, rounds: usize) {
    let yard = Yard::new(&["forks"]);
    for round in 0..rounds {
        let scene = Scene::set(&yard, yard.start());
        scene.find(victim).signal(Signal::SIGKILL);
        let what = format!("round {round}, {victim:?} killed: no process left");
        within(AFTER_ONE, &what, || none(&yard.left_of(&scene.below())));
        if victim != Victim::Gateway {
            soon("the upstream is back", || {
                let (failed, text) = scene.gateway.go("forks");
                if failed { Err(text) } else { Ok(()) }
            });
        }
        drop(scene);
        within(AFTER_ONE, "no process left after the gateway", || none(&yard.left_of(&yard.processes())));
    }
}

#[test]
fn nothing_is_left_of_a_killed_gateway() {
    check_one(Victim::Gateway, 7);
}

#[test]
fn nothing_is_left_by_a_killed_guard() {
    check_one(Victim::Guard, 6);
}

#[test]
fn nothing_is_left_by_a_killed_child() {
    check_one(Victim::Child, 7);
}

/// A call whose client has been asked a question waits in the gateway, and in no other one.
#[test]
fn an_answer_for_a_call_that_waited_in_a_killed_gateway_is_refused_with_the_reason() {
    let yard = Yard::new(&[]);
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/life/sampler.py");
    yard.also(&format!(
        "[upstreams.sampler]\ncommand = \"python3\"\nargs = [\"{server}\"]\nera = \"legacy\"\n"
    ));
    let call = |gateway: &Gateway, params: &Value| {
        let capabilities = json!({ "sampling": {} });
        let stream = wire::modern_of(gateway.url(), &[], "tools/call", params.clone(), &capabilities);
        http::read(stream).message()
    };
    let first = json!({ "name": "sampler__think", "arguments": {} });
    let answered = |asked: &Value| {
        let questions = asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}"));
        let content = json!({ "type": "text", "text": "42" });
        let answer = json!({ "role": "assistant", "content": content, "model": "m" });
        let mut again = first.clone();
        again["inputResponses"] = json!({ questions.keys().next().unwrap(): answer });
        again["requestState"] = asked["result"]["requestState"].clone();
        again
    };
    let gateway = yard.start();
    let answer = answered(&call(&gateway, &first));
    gateway.signal(Signal::SIGKILL);
    gateway.wait();
    let gateway = yard.start();
    let refused = call(&gateway, &answer);
    let reason = "is from before the gateway was restarted, and its call ended with the restart";
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains(reason)), "{refused}");
    let done = call(&gateway, &answered(&call(&gateway, &first)));
    assert_eq!(done["result"]["content"][0]["text"], "42 by m", "the call can be made again: {done}");
}

/// All three are killed, with a pause after each; then the next gateway is started.
fn check_all(pause: Duration) {
    let yard = Yard::new(&["forks"]);
    let mut gateway = yard.start();
    for order in ORDERS {
        let scene = Scene::set(&yard, gateway);
        let victims = order.map(|victim| scene.find(victim));
        for victim in victims {
            victim.signal(Signal::SIGKILL);
            std::thread::sleep(pause);
        }
        gateway = yard.start();
        assert_eq!(yard.left_of(&scene.family), [] as [&str; 0], "{order:?} with {pause:?} between");
    }
}

#[test]
fn the_next_start_ends_what_simultaneous_kills_leave() {
    check_all(Duration::ZERO);
}

#[test]
fn the_next_start_ends_what_kills_a_moment_apart_leave() {
    check_all(Duration::from_millis(1));
    check_all(Duration::from_millis(20));
}

#[test]
fn the_next_start_ends_what_kills_in_slow_order_leave() {
    check_all(Duration::from_millis(100));
    check_all(Duration::from_millis(300));
}
