//! Calls that take long: the client gets a task at once and comes back for the result. Tasks are kept in
//! memory, bounded in number and time, and belong to whoever started them.

mod task;
mod time;
mod wire;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use toolyard_proto::{CallError, Raw};
use toolyard_transport::{Answer, AnswerBody, BoxFuture, Peer, Principal, Request, Scope};

use crate::changes::Changes;
use crate::item::tool::TaskUse;
use crate::random;

pub(crate) use task::Task;
pub(crate) use wire::declare;

/// How many tasks are kept at once.
const MOST: usize = 1_000;
/// How long a task and its result are kept, unless the client asks for less.
const KEPT: Duration = Duration::from_hours(1);
/// How often clients should look.
const POLL: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Tasks {
    scope: Scope,
    changes: Changes,
    kept: Mutex<HashMap<String, Arc<Task>>>,
}

impl Tasks {
    pub(crate) fn new(changes: Changes) -> Self {
        Self { scope: Scope::new(), changes, kept: Mutex::default() }
    }

    /// Starts a task and says so. `run` gets the task, which is also the way back to whoever asks about it.
    pub(crate) fn start<F>(
        &self,
        request: &Request,
        run: impl FnOnce(&Arc<Task>) -> F,
    ) -> Result<Raw, CallError>
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let scope = self.scope.child();
        let kept_for = wire::kept_for(request).unwrap_or(KEPT).min(KEPT);
        let task = Task::new(
            random::token(),
            request.origin.principal.clone(),
            kept_for,
            scope.clone(),
            self.changes.clone(),
        );
        {
            let mut kept = self.kept();
            kept.retain(|_, task| !task.is_expired());
            if kept.len() >= MOST {
                return Err(CallError::limit("too many tasks are kept; wait until some are over"));
            }
            kept.insert(task.id().to_owned(), task.clone());
        }
        let started = wire::started(request, &task);
        let running = run(&task);
        scope.spawn(async move { task.finish(running.await) });
        Ok(started)
    }

    /// Answers a request about tasks; nothing if it is none of ours.
    pub(crate) fn answer(&self, request: &Request, peer: Peer) -> Option<BoxFuture<Answer>> {
        let answering = match request.method.as_str() {
            "tasks/get" => self.about(request).map(|task| ready(wire::details(request, &task))),
            "tasks/update" => self.about(request).map(|task| {
                task.take_answers(request.params.member("inputResponses").as_ref());
                ready(Raw::empty_object())
            }),
            "tasks/cancel" => self.about(request).and_then(|task| {
                let was_running = task.cancel();
                wire::cancelled(request, &task, was_running).map(ready)
            }),
            "tasks/list" if wire::knows_lists(request) => Ok(ready(self.list(request))),
            "tasks/result" if wire::knows_lists(request) => {
                self.about(request).map(|task| -> BoxFuture<Answer> { Box::pin(wire::result(task, peer)) })
            }
            _ => return None,
        };
        Some(answering.unwrap_or_else(|error| Box::pin(async { Err(error) })))
    }

    /// Whether there is such a task and it belongs to `principal`.
    pub(crate) fn is_of(&self, id: &str, principal: &Principal) -> bool {
        self.kept().get(id).is_some_and(|task| task.owner() == principal && !task.is_expired())
    }

    pub(crate) async fn end(&self) {
        self.scope.end().await;
    }

    /// The task that a request is about. One of somebody else is as unknown as one that never was.
    fn about(&self, request: &Request) -> Result<Arc<Task>, CallError> {
        wire::allowed(request)?;
        let id = request.params.member("taskId").and_then(|id| id.as_string()).unwrap_or_default();
        let task = self.kept().get(&id).cloned();
        task.filter(|task| *task.owner() == request.origin.principal && !task.is_expired())
            .ok_or_else(|| CallError::invalid_params(format!("unknown task: {id}")))
    }

    fn list(&self, request: &Request) -> Raw {
        let mut tasks: Vec<Arc<Task>> = self.kept().values().cloned().collect();
        tasks.retain(|task| *task.owner() == request.origin.principal && !task.is_expired());
        tasks.sort_by_key(|task| task.created());
        wire::list(&tasks)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Arc<Task>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this call of a tool becomes a task; an error where it would have to and cannot.
pub(crate) fn becomes_task(request: &Request, tool: TaskUse) -> Result<bool, CallError> {
    match tool {
        TaskUse::Allowed | TaskUse::Required if wire::wants_task(request) => Ok(true),
        TaskUse::Never | TaskUse::Allowed => Ok(false),
        TaskUse::Required => Err(wire::needs_tasks(request)),
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.scope.cancel();
    }
}

fn ready(result: Raw) -> BoxFuture<Answer> {
    Box::pin(async { Ok(AnswerBody::ours(result)) })
}
