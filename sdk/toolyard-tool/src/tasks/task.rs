//! One task: where it stands, what it wants to know, and what came of it.

mod first;

use std::future::Future;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{oneshot, watch};
use toolyard_proto::{CallError, Notification, Raw};
use toolyard_transport::{Answer, AnswerBody, Ask, AskError, Back, BoxFuture, Owner, Scope};

use super::wire;
use crate::changes::{Change, Changes};

pub(crate) use first::Stage;
pub(super) use first::answer;

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
    /// Counts changes, for whoever waits for one.
    version: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    outcome: Option<Outcome>,
    questions: Vec<Question>,
    asked: u64,
    updated: SystemTime,
}

/// A question that waits for its answer.
type Asking = BoxFuture<Result<Raw, AskError>>;

/// How a task ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Result(Raw),
    Error(CallError),
    Cancelled,
}

impl Outcome {
    pub(super) fn into_answer(self) -> Result<Raw, CallError> {
        match self {
            Self::Result(result) => Ok(result),
            Self::Error(error) => Err(error),
            Self::Cancelled => Err(CallError::cancelled()),
        }
    }
}

/// Something the task wants to know before it goes on.
#[derive(Debug)]
struct Question {
    /// No two have the same; a name may be used again.
    number: u64,
    key: String,
    ask: Ask,
    reply: oneshot::Sender<Result<Raw, AskError>>,
    /// Whether somebody who waits for the result is being asked.
    is_put: bool,
}

/// A question that is being put; whoever else waits for the result takes it up when this is dropped.
pub(super) struct Putting {
    task: Arc<Task>,
    number: u64,
    pub(super) ask: Ask,
}

/// Where a task stands, at one moment.
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
        owner: Owner,
        kept_for: Duration,
        scope: Scope,
        changes: Changes,
    ) -> Arc<Self> {
        let created = SystemTime::now();
        let state = State { stage: first, outcome: None, questions: Vec::new(), asked: 0, updated: created };
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

    /// Whether the client knows of it, or is told now.
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

    /// Stops it if it still runs: nobody can ask about it any more.
    pub(super) fn stop(&self) {
        self.cancel();
        self.scope.cancel();
    }

    /// The first end counts.
    fn end(&self, outcome: Outcome) -> bool {
        self.change(|state| {
            let is_first = state.outcome.is_none();
            if is_first {
                state.outcome = Some(outcome);
                state.questions.clear();
            }
            is_first
        })
    }

    /// Answers to questions, by their keys; unknown keys are ignored.
    pub(super) fn take_answers(&self, answers: Option<&Raw>) {
        let Some(answers) = answers else { return };
        self.change(|state| {
            let (answered, open): (Vec<_>, _) =
                state.questions.drain(..).partition(|one| answers.member(&one.key).is_some());
            state.questions = open;
            let is_any = !answered.is_empty();
            for question in answered {
                if let Some(answer) = answers.member(&question.key) {
                    // The task may have given up waiting.
                    let _ = question.reply.send(Ok(answer));
                }
            }
            is_any
        });
    }

    /// The first question that nobody is being asked yet.
    pub(super) fn put_next(self: &Arc<Self>) -> Option<Putting> {
        let mut state = self.state();
        let question = state.questions.iter_mut().find(|one| !one.is_put)?;
        question.is_put = true;
        Some(Putting { task: self.clone(), number: question.number, ask: question.ask.clone() })
    }

    fn asks(&self, number: u64) -> bool {
        self.state().questions.iter().any(|one| one.number == number)
    }

    /// Puts questions so that they appear at once, each under its name if it has one that is free. Only a task
    /// can be asked about, so it is one from now on.
    pub(crate) fn ask_all(&self, asks: impl IntoIterator<Item = (Option<String>, Ask)>) -> Vec<Asking> {
        let mut asking = Vec::new();
        self.change(|state| {
            state.stage = Stage::Task;
            for (name, ask) in asks {
                let (reply, answer) = oneshot::channel();
                state.asked += 1;
                let is_free = |name: &String| state.questions.iter().all(|open| open.key != *name);
                let key = name.filter(is_free).unwrap_or_else(|| format!("question-{}", state.asked));
                state.questions.push(Question { number: state.asked, key, ask, reply, is_put: false });
                asking.push(Box::pin(async { answer.await.unwrap_or(Err(AskError::Gone)) }) as Asking);
            }
            true
        });
        asking
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
        self.changes.announce(Change::Task(self.id.as_str().into(), wire::announcement(self)));
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Putting {
    pub(super) fn take_answer(self, answer: Result<Raw, AskError>) {
        self.task.change(|state| {
            let Some(at) = state.questions.iter().position(|one| one.number == self.number) else {
                return false;
            };
            // The task may have given up waiting.
            let _ = state.questions.remove(at).reply.send(answer);
            true
        });
    }

    /// Waits until the answer is not needed any more: the task is over, or somebody else has answered.
    pub(super) async fn settled(&self) {
        let mut seen = self.task.version();
        while self.task.asks(self.number) {
            seen = self.task.changed_since(seen).await;
        }
    }
}

impl Drop for Putting {
    fn drop(&mut self) {
        let mut is_open = false;
        for question in self.task.state().questions.iter_mut().filter(|one| one.number == self.number) {
            question.is_put = false;
            is_open = true;
        }
        if is_open {
            self.task.version.send_modify(|version| *version += 1);
        }
    }
}

/// The way back of a call that runs as a task: questions wait until somebody asks about the task. Progress
/// and log messages have no place in a task.
impl Back for Task {
    fn notify(&self, _: Notification) {}

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
            let (owner, time) = (Owner::Principal("local".into()), Duration::from_secs(1));
            let task = Task::new("t".into(), Stage::Task, owner, time, Scope::new(), Changes::default());
            let firsts = std::thread::scope(|scope| {
                // Nobody gets on before all are there.
                let state = task.state();
                let ending: Vec<_> = (0..8).map(|_| scope.spawn(|| task.cancel())).collect();
                drop(state);
                ending.into_iter().map(|ending| ending.join().unwrap()).filter(|first| *first).count()
            });
            assert_eq!(firsts, 1);
        }
    }
}
