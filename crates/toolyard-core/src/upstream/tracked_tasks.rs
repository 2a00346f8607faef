//! Tasks that a legacy upstream carries out for clients that poll them: the questions of each task, and its result.
//!
//! An upstream may have one process, or one session, for each client, and two of them may use the same task id. A task
//! id may be all that the gateway knows about the client that polls it, so an id that is in use is replaced by another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolyard_model::{Ask, AskError, Back, BoxFuture, Origin};
use toolyard_proto::{CallError, Notification, Raw};

use super::Lease;
use crate::bridge::TrackedStatus;

/// How many may be held; the one that expires first makes room.
const MOST: usize = 1_000;
/// How many bytes the answers that came at once may hold; those that expire first make room.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// By the ids that clients know.
#[derive(Default)]
pub(crate) struct TrackedTasks(Mutex<HashMap<String, Arc<TrackedTask>>>);

/// One of them. It is the way back of the request that waits for the task's result.
pub(crate) struct TrackedTask {
    /// Its id at the upstream, and the one that clients know.
    own: String,
    shown: String,
    origin: Arc<Origin>,
    expires: Instant,
    state: Mutex<TrackedState>,
}

struct TrackedState {
    /// Until the task has ended.
    lease: Option<Arc<Lease>>,
    asked: u64,
    open: Vec<Question>,
    /// The task's status at its end, and its outcome.
    ended: Option<(Raw, Result<Raw, CallError>)>,
}

struct Question {
    key: String,
    ask: Ask,
    reply: oneshot::Sender<Result<Raw, AskError>>,
}

impl TrackedTasks {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<TrackedTask>>> {
        self.0.lock()
    }

    pub(crate) fn hold(
        &self,
        id: &str,
        lease: &Arc<Lease>,
        origin: &Arc<Origin>,
        ttl: Duration,
    ) -> Arc<TrackedTask> {
        let now = Instant::now();
        let state = TrackedState { lease: Some(lease.clone()), asked: 0, open: Vec::new(), ended: None };
        let (origin, expires) = (origin.clone(), now + ttl);
        let mut all = self.all();
        all.retain(|_, task| task.expires > now);
        if all.len() >= MOST
            && let Some(first) = all.iter().min_by_key(|(_, task)| task.expires).map(|(id, _)| id.clone())
        {
            all.remove(&first);
        }
        let (own, shown) = (id.to_owned(), free_id(&all, id));
        let held = Arc::new(TrackedTask { own, shown, origin, expires, state: Mutex::new(state) });
        all.insert(held.shown.clone(), held.clone());
        held
    }

    /// A task that was over before it began; `task` holds its result.
    pub(crate) fn end_at_once(&self, held: &TrackedTask, task: &Raw) {
        let result = task.member("result").unwrap_or_else(Raw::empty_object);
        held.end(task.clone(), Ok(result));
        let mut all = self.all();
        let mut ended: Vec<(Instant, String, usize)> =
            all.iter().map(|(id, task)| (task.expires, id.clone(), task.weight())).collect();
        ended.sort_unstable();
        let mut bytes: usize = ended.iter().map(|(.., weight)| weight).sum();
        for (_, id, weight) in ended {
            if bytes <= MOST_BYTES {
                break;
            }
            if weight > 0 && id != held.shown {
                all.remove(&id);
                bytes -= weight;
            }
        }
    }

    /// The task, if it is tracked. Other clients learn nothing of it, not even that it exists.
    pub(crate) fn find(&self, id: &str, origin: &Origin) -> Result<Option<Arc<TrackedTask>>, CallError> {
        let mut all = self.all();
        if all.get(id).is_some_and(|task| task.is_forgotten()) {
            all.remove(id);
        }
        match all.get(id) {
            Some(task) if task.origin.principal != origin.principal => {
                Err(CallError::invalid_params(format!("unknown task {id:?}")))
            }
            held => Ok(held.cloned()),
        }
    }
}

/// There is one: fewer are in use than are tried.
fn free_id(used: &HashMap<String, Arc<TrackedTask>>, own: &str) -> String {
    let others = (2..=used.len() + 2).map(|number| format!("{own}~{number}"));
    let mut all = std::iter::once(own.to_owned()).chain(others);
    all.find(|id| !used.contains_key(id)).unwrap_or_else(|| own.to_owned())
}

impl TrackedTask {
    pub(crate) fn own_id(&self) -> &str {
        &self.own
    }

    pub(crate) fn shown_id(&self) -> &str {
        &self.shown
    }

    fn state(&self) -> MutexGuard<'_, TrackedState> {
        self.state.lock()
    }

    /// The link that the task lives on, until it has ended.
    pub(crate) fn lease(&self) -> Option<Arc<Lease>> {
        self.state().lease.clone()
    }

    pub(crate) fn status(&self) -> TrackedStatus {
        let mut state = self.state();
        state.open.retain(|question| !question.reply.is_closed());
        match &state.ended {
            Some((task, outcome)) => TrackedStatus::Ended(task.clone(), outcome.clone()),
            None if state.open.is_empty() => TrackedStatus::Working,
            None => TrackedStatus::Asking(state.open.iter().fold(Raw::empty_object(), |all, question| {
                let method = Raw::from_serialize(&question.ask.method.as_str());
                let params = question.ask.params.clone().unwrap_or_else(Raw::empty_object);
                let params = params.without(&["_meta", "task", "elicitationId"]);
                all.with(&question.key, &Raw::empty_object().with("method", &method).with("params", &params))
            })),
        }
    }

    /// Whether it has expired and has ended.
    fn is_forgotten(&self) -> bool {
        self.expires <= Instant::now() && self.state().ended.is_some()
    }

    /// How many bytes its answer holds.
    fn weight(&self) -> usize {
        self.state().ended.as_ref().map_or(0, |(task, _)| task.as_bytes().len())
    }

    /// The last status of the task, once it has ended.
    pub(crate) fn over(&self) -> Option<Raw> {
        self.state().ended.as_ref().map(|(task, _)| task.clone())
    }

    /// Unknown keys are ignored, and what is missing stays open.
    pub(crate) fn answer(&self, responses: &Raw) {
        let mut state = self.state();
        for question in std::mem::take(&mut state.open) {
            match responses.member(&question.key) {
                // The client may have stopped waiting in the meantime.
                Some(response) => drop(question.reply.send(Ok(response))),
                None => state.open.push(question),
            }
        }
    }

    pub(crate) fn end(&self, task: Raw, outcome: Result<Raw, CallError>) {
        let mut state = self.state();
        state.ended = Some((task, outcome));
        state.open.clear();
        let lease = state.lease.take();
        drop(state);
        drop(lease);
    }
}

impl Back for TrackedTask {
    /// A task has no stream to send them on.
    fn notify(&self, _: Notification) {}

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        if let Some(refusal) = ask.refusal(&self.origin.capabilities) {
            return Box::pin(async { Err(refusal) });
        }
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        state.asked += 1;
        let key = format!("ask{}", state.asked);
        state.open.push(Question { key, ask, reply });
        Box::pin(async { answer.await.unwrap_or(Err(AskError::Gone)) })
    }
}
