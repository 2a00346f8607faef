//! One task: its status, its questions and its result.

mod first;
mod lasting;
mod past;
mod questions;

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use toolyard_model::{Answer, AnswerBody, Ask, AskError, Back, BoxFuture, Origin, Owner, Peer, Scope};
use toolyard_proto::{CallError, Notification, Raw};

use super::wire;
use crate::changes::{Change, Changes};

use questions::OpenQuestion;

pub(crate) use first::Stage;
pub(super) use first::answer;
pub(super) use lasting::{Lasting, is_running_here, owners_of};
pub(super) use past::{Past, ask_of};
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
    /// The store of the task, if it survives the program.
    lasting: Option<Lasting>,
}

/// The parts that a task is made from.
pub(super) struct NewTask {
    pub(super) id: String,
    pub(super) stage: Stage,
    pub(super) call: Peer,
    pub(super) owner: Owner,
    pub(super) created: SystemTime,
    pub(super) kept_for: Duration,
    pub(super) scope: Scope,
    pub(super) changes: Changes,
    pub(super) lasting: Option<Lasting>,
    /// Of an earlier run.
    pub(super) past: Past,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// The caller, until the call becomes a task.
    call: Option<Peer>,
    outcome: Option<Outcome>,
    questions: Vec<OpenQuestion>,
    /// The names of all questions so far.
    keys: HashSet<String>,
    past: Past,
    /// The last message of its progress.
    message: Option<String>,
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
                "the tool returned its questions after its call had become a task; use `?` to return them",
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
pub(super) struct TaskSnapshot {
    pub(super) id: String,
    pub(super) created: SystemTime,
    pub(super) kept_for: Duration,
    pub(super) outcome: Option<Outcome>,
    pub(super) questions: Vec<(String, Ask)>,
    pub(super) message: Option<String>,
    pub(super) updated: SystemTime,
}

impl Task {
    pub(super) fn new(making: NewTask) -> Arc<Self> {
        let NewTask { id, stage, call, owner, created, kept_for, scope, changes, lasting, past } = making;
        let call = (stage != Stage::Task).then_some(call);
        let state = State {
            stage,
            call,
            outcome: None,
            questions: Vec::new(),
            keys: HashSet::new(),
            past,
            message: None,
            updated: SystemTime::now(),
        };
        let (state, version) = (Mutex::new(state), watch::Sender::new(0));
        let work = scope.child();
        Arc::new(Self { id, owner, created, kept_for, scope, work, changes, state, version, lasting })
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

    /// Until it is forgotten.
    pub(super) fn time_left(&self) -> Duration {
        self.kept_for.saturating_sub(self.created.elapsed().unwrap_or_default())
    }

    /// Whether this client may ask about it.
    pub(super) fn is_of(&self, origin: &Origin) -> bool {
        match &self.lasting {
            Some(lasting) => lasting.is_of(origin),
            None => *self.owner() == Owner::of(origin),
        }
    }

    /// Whether it is in the list of this client.
    pub(super) fn is_listed_for(&self, origin: &Origin) -> bool {
        match &self.lasting {
            Some(lasting) => lasting.is_listed_for(origin),
            None => *self.owner() == Owner::of(origin),
        }
    }

    /// The message of its progress is also that of its status.
    pub(crate) fn set_message(&self, message: String) {
        self.state().message = Some(message);
    }

    /// Ends when the task is forgotten.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(super) fn run(self: &Arc<Self>, running: impl Future<Output = Answer> + Send + 'static) {
        let task = self.clone();
        self.work.spawn(async move { task.finish(running.await) });
    }

    /// Whether the client knows of the task already, or is informed now.
    pub(super) fn is_begun(&self) -> bool {
        self.state().stage == Stage::Task
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().outcome.is_some()
    }

    /// Its current status. Of a stored task, clients see only what is stored.
    pub(super) fn snapshot(&self) -> TaskSnapshot {
        self.snapshot_of(&self.state())
    }

    fn snapshot_of(&self, state: &State) -> TaskSnapshot {
        let own = state.questions.iter().map(|one| (one.key.clone(), one.ask.clone()));
        let questions = match &state.outcome {
            None => state.past.open().chain(own).collect(),
            Some(_) => Vec::new(),
        };
        TaskSnapshot {
            id: self.id.clone(),
            created: self.created,
            kept_for: self.kept_for,
            outcome: state.outcome.clone(),
            questions,
            message: state.message.clone(),
            updated: state.updated,
        }
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

    /// Stops the task if it is still running, because no client can ask about it any longer.
    pub(super) fn stop(&self) {
        // The storing ends first: a stored task is interrupted, not cancelled.
        self.scope.cancel();
        self.cancel();
    }

    /// The first outcome counts.
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

    /// Waits until something has changed since `seen`, and returns the new count.
    pub(super) async fn changed_since(&self, seen: u64) -> u64 {
        let mut version = self.version.subscribe();
        // The sender lives as long as the task.
        version.wait_for(|version| *version > seen).await.map_or(seen, |version| *version)
    }

    pub(super) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Looks and changes under one lock; `change` returns whether anything is different now.
    fn change(&self, change: impl FnOnce(&mut State) -> bool) -> bool {
        {
            let mut state = self.state();
            if !change(&mut state) {
                return false;
            }
            state.updated = SystemTime::now();
            self.version.send_modify(|version| *version += 1);
        }
        // A stored task is announced when it is stored.
        if self.lasting.is_none() && self.is_begun() {
            self.announce(&self.snapshot());
        }
        true
    }

    fn announce(&self, snapshot: &TaskSnapshot) {
        self.changes.announce(Change::Task(self.id.as_str().into(), wire::announcement(snapshot)));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// The channel back to the client of a task: questions wait until the client asks about the task. A task has no
/// progress or log messages; they reach the caller only until the call becomes a task.
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
    fn only_the_first_end_of_a_task_counts() {
        for _ in 0..500 {
            let task = Task::new(NewTask {
                id: "t".into(),
                stage: Stage::Task,
                call: Peer::none(),
                owner: Owner::Principal(toolyard_model::Principal::local()),
                created: SystemTime::now(),
                kept_for: Duration::from_secs(1),
                scope: Scope::new(),
                changes: Changes::default(),
                lasting: None,
                past: Past::default(),
            });
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
