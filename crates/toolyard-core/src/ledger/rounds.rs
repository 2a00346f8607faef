//! Which round of a logical call a request is. A client that was asked by a result repeats its call with the state that
//! it was given, so the round of that state is remembered. The second round needs no memory: a request that brings a
//! state or answers is at least the second.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use memchr::memmem;
use parking_lot::{Mutex, MutexGuard};
use toolyard_proto::{Params, Raw};

/// How many states of third and later rounds are remembered. The round of an older one counts as the second.
const MOST_STATES: usize = 1_000;
const STATE: &str = "requestState";
const STATE_KEY: &[u8] = b"\"requestState\"";

#[derive(Default)]
pub(crate) struct Rounds {
    hasher: RandomState,
    /// The hash of a state, and the round that it leads to.
    states: Mutex<VecDeque<(u64, u32)>>,
}

impl Rounds {
    /// The round that a request with these parameters begins.
    pub(crate) fn of(&self, params: &Params) -> u32 {
        let state = params.member(STATE);
        if state.is_none() && params.find("inputResponses").is_none() {
            return 1;
        }
        let known = state.and_then(|state| self.known(&state.as_string()?));
        known.unwrap_or(2)
    }

    fn known(&self, state: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(state);
        self.states().iter().rfind(|(known, _)| *known == hash).map(|(_, round)| *round)
    }

    /// A request of this round was answered with this result.
    pub(super) fn answered(&self, round: u32, result: &Raw) {
        if round > 1
            && let Some(state) = result.member(STATE).and_then(|state| state.as_string())
        {
            self.remember(&state, round + 1);
        }
    }

    /// The same for an answer in the bytes of its transport, which is searched for a state.
    pub(super) fn relayed(&self, round: u32, body: &[u8]) {
        if let Some(state) = state_in(body) {
            self.remember(&state, round + 1);
        }
    }

    fn remember(&self, state: &str, round: u32) {
        let hash = self.hasher.hash_one(state);
        let mut states = self.states();
        if states.len() == MOST_STATES {
            states.pop_front();
        }
        states.push_back((hash, round));
    }

    fn states(&self) -> MutexGuard<'_, VecDeque<(u64, u32)>> {
        self.states.lock()
    }
}

/// The last `requestState` in a body: JSON, or events that contain it.
fn state_in(body: &[u8]) -> Option<String> {
    let after = &body[memmem::rfind(body, STATE_KEY)? + STATE_KEY.len()..];
    let value = after.trim_ascii_start().strip_prefix(b":")?;
    serde_json::Deserializer::from_slice(value).into_iter::<String>().next()?.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn params(value: Value) -> Params {
        Raw::from(value).into()
    }

    #[test]
    fn the_round_grows_with_each_state_that_is_brought_back() {
        let rounds = Rounds::default();
        let bring = |state: &str| rounds.of(&params(json!({ "name": "t", "requestState": state })));
        assert_eq!(rounds.of(&params(json!({ "name": "t", "arguments": {} }))), 1);
        assert_eq!(rounds.of(&params(json!({ "name": "t", "inputResponses": {} }))), 2);
        assert_eq!(bring("a"), 2);
        rounds.answered(2, &Raw::from(json!({ "requestState": "b\u{f6}" })));
        assert_eq!(bring("b\u{f6}"), 3);
        rounds.relayed(3, br#"data: {"result": {"requestState" : "c\n", "inputRequests": {}}}"#);
        assert_eq!(bring("c\n"), 4);
        assert_eq!(bring("a"), 2);
    }

    #[test]
    fn the_oldest_states_are_forgotten() {
        let rounds = Rounds::default();
        for number in 0..=MOST_STATES {
            rounds.remember(&number.to_string(), 3);
        }
        assert_eq!((rounds.known("0"), rounds.known("1")), (None, Some(3)));
        assert_eq!(rounds.states().len(), MOST_STATES);
    }
}
