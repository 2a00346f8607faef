//! An upstream through random events, by a virtual clock, checked against a few plain rules.
//! Its state machine alone is checked against a model beside its own file.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use toolyard_core::Gateway;
use toolyard_core::upstream::state::{Phase, State};
use toolyard_model::{Answer, AnswerBody};
use toolyard_proto::Revision;

use crate::health::{SilenceSwitch, pinged, silenceable};
use crate::support::{Attempt, Client, Double, start};

/// How many steps of its life are kept.
const KEPT: usize = 100;
/// A silent upstream is noticed within three pings and their waits, with some tolerance.
const FOUND_OUT: Duration = Duration::from_secs(40);
/// A call may take so long, and explains silence meanwhile.
const CALL: Duration = Duration::from_secs(30);
/// The longest attempt, the longest wait and a little more.
const SURELY: Duration = Duration::from_mins(5);

#[derive(Clone, Debug)]
enum Event {
    TimePasses(u64),
    Hangup,
    Silence,
    Speech,
    /// So many attempts to connect fail.
    Failures(usize),
    /// The next attempt never ends.
    Hanging,
    Detected,
    Doubt,
    Call,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0u64..40_000).prop_map(Event::TimePasses),
        3 => Just(Event::Hangup),
        2 => Just(Event::Silence),
        2 => Just(Event::Speech),
        2 => (1usize..8).prop_map(Event::Failures),
        1 => Just(Event::Hanging),
        2 => Just(Event::Detected),
        1 => Just(Event::Doubt),
        4 => Just(Event::Call),
    ]
}

struct Scene {
    gateway: Gateway,
    double: Arc<Double>,
    silence: Arc<SilenceSwitch>,
    client: Client,
    calls: Vec<(usize, JoinHandle<Answer>)>,
    silent_since: Option<Instant>,
    last_call: Option<Instant>,
    /// The steps made so far, and when that was seen.
    steps: (u64, Instant),
}

impl Scene {
    fn start() -> Self {
        let (double, silence) = silenceable(Revision::NEWEST);
        let gateway = start(&[("a", &double)], pinged);
        let client = Client::new(&gateway, Revision::NEWEST, "");
        let (silent_since, last_call, steps) = (None, None, (0, Instant::now()));
        Self { gateway, double, silence, client, calls: Vec::new(), silent_since, last_call, steps }
    }

    fn state(&self) -> State {
        self.gateway.upstreams()[1].state()
    }

    fn connects(&self) -> usize {
        self.double.connects.load(Ordering::SeqCst)
    }

    fn silence(&mut self, is_silent: bool) {
        self.silence.everything.store(is_silent, Ordering::SeqCst);
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        self.silent_since = is_silent.then_some(since);
    }

    async fn play(&mut self, event: Event) -> Result<(), TestCaseError> {
        let (before, connects) = (self.state(), self.connects());
        let upstream = self.gateway.upstreams()[1].clone();
        match event {
            Event::TimePasses(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Event::Hangup => self.double.hang_up("it hung up"),
            Event::Silence => self.silence(true),
            Event::Speech => self.silence(false),
            Event::Failures(count) => self.fail((0..count).map(|_| Attempt::Fails)),
            Event::Hanging => self.fail([Attempt::Hangs]),
            Event::Detected => upstream.wake(),
            Event::Doubt => upstream.revalidate(),
            Event::Call => self.call(),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let after = self.state();
        if before.phase == Phase::Dead && after.history.total() == before.history.total() {
            prop_assert_eq!(self.connects(), connects, "no attempt is made while the breaker is open");
            prop_assert!(!matches!(event, Event::Detected | Event::Doubt), "a dead upstream is woken");
        }
        if matches!(event, Event::Hangup) && before.phase == Phase::Active {
            // An earlier detection may have reconnected it already.
            let made = usize::try_from(after.history.total() - before.history.total()).unwrap();
            let lost = after.history.changes().rev().take(made).next_back().unwrap();
            prop_assert_eq!((lost.to, lost.reason.clone()), (Phase::Retrying, Some("it hung up".into())));
        }
        self.check(&after)
    }

    fn fail(&self, attempts: impl IntoIterator<Item = Attempt>) {
        self.double.attempts.lock().extend(attempts);
    }

    fn call(&mut self) {
        let word = self.calls.len();
        let params = json!({ "name": "a__t", "arguments": { "word": word } });
        self.calls.push((word, tokio::spawn(self.client.send("tools/call", params))));
        self.last_call = Some(Instant::now());
    }

    /// What must hold at any time.
    fn check(&mut self, state: &State) -> Result<(), TestCaseError> {
        let changes: Vec<_> = state.history.changes().collect();
        prop_assert!(changes.len() <= KEPT);
        prop_assert!(changes.iter().all(|change| change.from.may_become(change.to)), "{:?}", changes);
        prop_assert!(changes.windows(2).all(|pair| pair[0].to == pair[1].from), "{:?}", changes);
        prop_assert_eq!(changes.last().map_or(Phase::Discovered, |change| change.to), state.phase);
        let now = Instant::now();
        if self.steps.0 != state.history.total() {
            self.steps = (state.history.total(), now);
        }
        if let (Phase::Active, Some(silent)) = (state.phase, self.silent_since) {
            let excuse = self.last_call.map_or(silent, |at| at + CALL);
            let since = excuse.max(silent).max(self.steps.1);
            prop_assert!(now <= since + FOUND_OUT, "silent for {:?}, and still active", now - since);
        }
        Ok(())
    }

    /// Without further trouble the upstream becomes active, every call has its answer, and nothing follows the end.
    async fn finish(mut self) -> Result<(), TestCaseError> {
        self.silence(false);
        self.double.attempts.lock().clear();
        tokio::time::sleep(SURELY).await;
        prop_assert_eq!(self.state().phase, Phase::Active, "{:?}", self.state());
        self.call();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let last = self.calls.len() - 1;
        for (word, call) in std::mem::take(&mut self.calls) {
            prop_assert!(call.is_finished(), "call {} has no answer", word);
            let is_good = is_own_answer(word, call.await.unwrap())?;
            prop_assert!(is_good || word != last, "the last one has nothing to fail for");
        }
        self.gateway.end().await;
        tokio::time::sleep(SURELY).await;
        prop_assert_eq!(self.state().phase, Phase::Ended);
        Ok(())
    }
}

/// Whether it was answered rather than refused; never with the answer to another call.
fn is_own_answer(word: usize, answer: Answer) -> Result<bool, TestCaseError> {
    match answer {
        Ok(AnswerBody::Whole(result, _)) => {
            let result: Value = result.read().unwrap();
            if result["isError"] == true {
                let kind = &result["_meta"]["dev.toolyard/error"]["kind"];
                let known = ["unavailable", "lost", "timeout"].iter().any(|known| kind == known);
                prop_assert!(known, "{}", result);
                return Ok(false);
            }
            let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            prop_assert_eq!(&text["arguments"]["word"], &json!(word));
            Ok(true)
        }
        Ok(AnswerBody::Stream(_)) => Err(TestCaseError::fail("nothing streams here")),
        Err(error) => {
            let message = error.message();
            let is_unknown = message.contains("unknown tool") || message.contains("is not known");
            prop_assert!(is_unknown, "{}", message);
            Ok(false)
        }
    }
}

proptest! {
    #[test]
    fn in_any_schedule_steps_are_valid_and_each_call_has_one_answer(
        events in prop::collection::vec(event(), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let mut scene = Scene::start();
            for event in events {
                scene.play(event).await?;
            }
            scene.finish().await
        })?;
    }
}
