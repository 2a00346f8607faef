//! Calls that take long: the client gets a task, at once or when its first questions are answered, and comes
//! back for the result. Tasks are kept in memory, bounded in number and time, and belong to whoever started them.

mod kept;
mod task;
mod time;
mod wire;
pub(crate) mod store;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use toolyard_model::{Answer, AnswerBody, BoxFuture, ClientKey, Origin, Owner, Peer, Request, Scope};
use toolyard_proto::{CallError, Raw};

use crate::changes::Changes;
use crate::item::tool::{TaskUse, Tool};
use crate::random;
use kept::Kept;

pub(crate) use task::{Stage, Task};
pub(crate) use wire::declare;

/// How long a task and its result are kept, unless the client asks for less.
const KEPT: Duration = Duration::from_hours(1);
/// How often clients should look.
const POLL: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Tasks {
    scope: Scope,
    changes: Changes,
    kept: Arc<Kept>,
}

impl Tasks {
    /// The scope ends with the tasks.
    pub(crate) fn new(scope: Scope, changes: Changes) -> Self {
        Self { scope, changes, kept: Arc::default() }
    }

    /// Starts a task and says so, or answers with what it asks before it is one. `run` gets the task, which is also
    /// the way back: to whoever asks about it, and before that to the `call`.
    pub(crate) fn start<F>(
        &self,
        request: &Request,
        call: Peer,
        stage: Stage,
        run: impl FnOnce(&Arc<Task>) -> F,
    ) -> Result<BoxFuture<Answer>, CallError>
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        if self.scope.is_ended() {
            return Err(CallError::cancelled());
        }
        let kept_for = wire::kept_for(request).unwrap_or(KEPT).min(KEPT);
        let (owner, scope) = (Owner::of(&request.origin), self.scope.child());
        let task = Task::new(random::token(), stage, call, owner, kept_for, scope, self.changes.clone());
        match stage {
            Stage::Task => self.kept.add(&task)?,
            Stage::Call | Stage::Asking => self.kept.check_room(task.owner())?,
        }
        task.run(run(&task));
        let started = wire::started(request, &task);
        Ok(Box::pin(task::answer(task, self.kept.clone(), started)))
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
            "tasks/list" if wire::knows_lists(request) => {
                Ok(ready(wire::list(&self.kept.of(&Owner::of(&request.origin)))))
            }
            "tasks/result" if wire::knows_lists(request) => {
                self.about(request).map(|task| -> BoxFuture<Answer> { Box::pin(wire::result(task, peer)) })
            }
            _ => return None,
        };
        Some(answering.unwrap_or_else(|error| Box::pin(async { Err(error) })))
    }

    /// Whether there is such a task and it belongs to who asks.
    pub(crate) fn is_of(&self, id: &str, origin: &Origin) -> bool {
        self.kept.find(id, &Owner::of(origin)).is_some()
    }

    /// A client is gone, and with it whoever could come back for its tasks.
    pub(crate) fn client_ended(&self, client: &ClientKey) {
        self.kept.forget_of(&Owner::Client(client.clone()));
    }

    /// Ends them all; whoever waits for one hears that it was cancelled.
    pub(crate) async fn end(&self) {
        self.kept.forget_all();
        self.scope.end().await;
    }

    /// The task that a request is about. One of somebody else is as unknown as one that never was.
    fn about(&self, request: &Request) -> Result<Arc<Task>, CallError> {
        wire::allowed(request)?;
        let id = request.params.member("taskId").and_then(|id| id.as_string()).unwrap_or_default();
        self.kept
            .find(&id, &Owner::of(&request.origin))
            .ok_or_else(|| CallError::invalid_params(format!("unknown task: {id}")))
    }
}

/// As what this call of a tool begins if it becomes a task; an error where it would have to and cannot.
pub(crate) fn first_stage(request: &Request, tool: &Tool) -> Result<Option<Stage>, CallError> {
    let is_task = tool.task != TaskUse::Never && wire::wants_task(request);
    let can_ask_first = request.origin.revision.has_result_stamps();
    match tool.task {
        TaskUse::Required if !is_task => Err(wire::needs_tasks(request)),
        _ if !is_task => Ok(None),
        _ if tool.asks_first && can_ask_first => Ok(Some(Stage::Call)),
        _ => Ok(Some(Stage::Task)),
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
