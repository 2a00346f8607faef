//! A client that calls apps at random, and checks every answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{Cast, Chance};
use crate::support::{Agent, Yard};

/// The most calls of one client at a time.
const AT_ONCE: u64 = 4;

/// The results of calls.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) good: usize,
    failed: BTreeMap<String, usize>,
}

impl Tally {
    pub(super) fn calls(&self) -> usize {
        self.good + self.failed.values().sum::<usize>()
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.good += other.good;
        for (kind, count) in other.failed {
            *self.failed.entry(kind).or_default() += count;
        }
        self
    }
}

pub(super) struct Caller {
    agent: Agent,
    cast: Arc<Cast>,
    number: u64,
    chance: Chance,
    tally: Tally,
}

impl Caller {
    pub(super) fn new(yard: &Yard, cast: Arc<Cast>, number: u64, seed: u64) -> Self {
        // Half of the clients use a session.
        let agent = if number.is_multiple_of(2) { yard.agent() } else { yard.agent().shake_hands() };
        Self { agent, cast, number, chance: Chance::new(seed + number + 1), tally: Tally::default() }
    }

    pub(super) fn run(mut self, over: &AtomicBool) -> Tally {
        let mut round = 0;
        while !over.load(Ordering::SeqCst) {
            round += 1;
            let asked: Vec<(u64, String, String)> =
                (0..=self.chance.below(AT_ONCE)).map(|at| self.ask(&format!("{round}-{at}"))).collect();
            for (id, name, word) in asked {
                let answer = self.agent.answer(id);
                self.look_at(&answer, &name, &word);
            }
        }
        // A second answer to a request would be found among the unrequested ones.
        self.agent.nothing_is_left();
        self.agent.leave();
        self.tally
    }

    fn ask(&mut self, word: &str) -> (u64, String, String) {
        let name = self.chance.of(&self.cast.names).clone();
        let word = format!("{}-{word}", self.number);
        let arguments = json!({ "word": word, "wait": self.chance.below(60) });
        (self.agent.send_call(&format!("{name}__who"), &arguments), name, word)
    }

    fn look_at(&mut self, answer: &Value, name: &str, word: &str) {
        let result = &answer["result"];
        if result.is_object() && result["isError"] != true {
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            let [who, pid, received] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{answer}") };
            assert_eq!((who, received), (name, word), "the answer of another upstream: {answer}");
            assert!(self.cast.has_been(name, pid), "no process of that name had the id {pid}: {answer}");
            self.tally.good += 1;
            return;
        }
        let kind = match &answer["error"]["code"] {
            Value::Null => result["_meta"]["dev.toolyard/error"]["kind"].as_str().map(str::to_owned),
            code => Some(code.to_string()),
        };
        let kind = kind.unwrap_or_else(|| panic!("neither answer nor failure: {answer}"));
        assert!(["lost", "unavailable", "-32602"].contains(&kind.as_str()), "{answer}");
        *self.tally.failed.entry(kind).or_default() += 1;
    }
}
