//! One task: its status, its questions and its result.

mod first;
mod questions;

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use toolyard_model::{Answer, AnswerBody, Ask, AskError, Back, BoxFuture, Owner, Peer, Scope};
use toolyard_proto::{CallError, Notification, Raw};

use super::wire;
use crate::changes::{Change, Changes};

use questions::Question;

pub(crate) use first::Stage;
pub(super) use first::answer;
pub(super) use questions::Putting;

#[derive(Debug)]
pub(crate) struct Task {
    id: String,
    owner: Owner,
    created: SystemTime,
    kept_for: Duration,
    /// Ends when the task is forgotten.
    scope: Scope,
    /// Ends when the task does.
    work: Scope,
    changes: Changes,
    state: Mutex<State>,
    /// Counts changes, for waiters.
    version: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// The caller, until the call becomes a task.
    call: Option<Peer>,
    outcome: Option<Outcome>,
    questions: Vec<Question>,
    /// Those of all questions so far.
    keys: HashSet<String>,
    updated: SystemTime,
}

/// How a task ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Result(Raw),
    Error(CallError),
    Cancelled,
}

impl Outcome {
    /// The answer to a call may ask; the result of a task may not, because it could not be answered.
    fn of_task(self) -> Self {
        let asks = |result: &Raw| {
            result.member("resultType").is_some_and(|kind| kind.as_bytes() == b"\"input_required\"")
        };
        match self {
            Self::Result(result) if asks(&result) => Self::Error(CallError::internal(
                "the tool gave its questions back after its call had become a task; questions are put with `?`",
            )),
            outcome => outcome,
        }
    }

    pub(super) fn into_answer(self) -> Result<Raw, CallError> {
        match self {
            Self::Result(result) => Ok(result),
            Self::Error(error) => Err(error),
            Self::Cancelled => Err(CallError::cancelled()),
        }
    }
}

/// The status of a task at one moment.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) outcome: Option<Outcome>,
    pub(super) questions: Vec<(String, Ask)>,
    pub(super) updated: SystemTime,
}

impl Task {
    pub(super) fn new(
        id: String,
        first: Stage,
        call: Peer,
        owner: Owner,
        kept_for: Duration,
        scope: Scope,
        changes: Changes,
    ) -> Arc<Self> {
        let created = SystemTime::now();
        let call = (first != Stage::Task).then_some(call);
        let state = State {
            stage: first,
            call,
            outcome: None,
            questions: Vec::new(),
            keys: HashSet::new(),
            updated: created,
        };
        let (state, version) = (Mutex::new(state), watch::Sender::new(0));
        let work = scope.child();
        Arc::new(Self { id, owner, created, kept_for, scope, work, changes, state, version })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(super) fn created(&self) -> SystemTime {
        self.created
    }

    pub(super) fn kept_for(&self) -> Duration {
        self.kept_for
    }

    /// Ends when the task is forgotten.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(super) fn run(self: &Arc<Self>, running: impl Future<Output = Answer> + Send + 'static) {
        let task = self.clone();
        self.work.spawn(async move { task.finish(running.await) });
    }

    /// Whether the client knows of the task, or learns of it now.
    pub(super) fn is_begun(&self) -> bool {
        self.state().stage == Stage::Task
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().outcome.is_some()
    }

    pub(super) fn standing(&self) -> Standing {
        let state = self.state();
        let questions = state.questions.iter().map(|one| (one.key.clone(), one.ask.clone())).collect();
        Standing { outcome: state.outcome.clone(), questions, updated: state.updated }
    }

    fn finish(&self, answer: Answer) {
        let outcome = match answer {
            Ok(AnswerBody::Whole(result, _)) => Outcome::Result(result),
            Ok(AnswerBody::Stream(_)) => Outcome::Error(CallError::internal("a tool answered with a stream")),
            Err(error) => Outcome::Error(error),
        };
        self.end(outcome);
    }

    /// Stops the task. False if it was over already.
    pub(super) fn cancel(&self) -> bool {
        let was_running = self.end(Outcome::Cancelled);
        self.work.cancel();
        was_running
    }

    /// Stops it if it is still running: no client can ask about it any more.
    pub(super) fn stop(&self) {
        self.cancel();
        self.scope.cancel();
    }

    /// The first end counts.
    fn end(&self, outcome: Outcome) -> bool {
        self.change(|state| {
            let is_first = state.outcome.is_none();
            if is_first {
                state.outcome = Some(if state.stage == Stage::Task { outcome.of_task() } else { outcome });
                state.questions.clear();
            }
            is_first
        })
    }

    /// Waits until something has changed since `seen`, and gives the new count.
    pub(super) async fn changed_since(&self, seen: u64) -> u64 {
        let mut version = self.version.subscribe();
        // The sender lives as long as the task.
        version.wait_for(|version| *version > seen).await.map_or(seen, |version| *version)
    }

    pub(super) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Looks and changes under one lock; `change` says whether anything is different now.
    fn change(&self, change: impl FnOnce(&mut State) -> bool) -> bool {
        {
            let mut state = self.state();
            if !change(&mut state) {
                return false;
            }
            state.updated = SystemTime::now();
        }
        self.version.send_modify(|version| *version += 1);
        if self.is_begun() {
            self.changes.announce(Change::Task(self.id.as_str().into(), wire::announcement(self)));
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way back of a call that runs as a task: questions wait until the client asks about the task. Progress
/// and log messages have no place in a task, and reach the caller only until the call becomes one.
impl Back for Task {
    fn notify(&self, notification: Notification) {
        let call = self.state().call.clone();
        if let Some(call) = call {
            call.notify(notification);
        }
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        let mut asking = self.ask_all([(None, ask)]);
        asking.pop().unwrap_or_else(|| Box::pin(async { Err(AskError::Gone) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_ends_at_once_only_the_first_counts() {
        for _ in 0..500 {
            let (owner, time) =
                (Owner::Principal(toolyard_model::Principal::local()), Duration::from_secs(1));
            let task = Task::new(
                "t".into(),
                Stage::Task,
                Peer::none(),
                owner,
                time,
                Scope::new(),
                Changes::default(),
            );
            let firsts = std::thread::scope(|scope| {
                // No thread continues before all have started.
                let state = task.state();
                let ending: Vec<_> = (0..8).map(|_| scope.spawn(|| task.cancel())).collect();
                drop(state);
                ending.into_iter().map(|ending| ending.join().unwrap()).filter(|first| *first).count()
            });
            assert_eq!(firsts, 1);
        }
    }
}
