//! Tools of a legacy upstream that run only as tasks. For a client without support for tasks the gateway creates the
//! task and waits for its result; other clients receive a task, and poll it with the methods of their own era.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolyard_model::{Answer, AnswerBody, Greeting, Link, LinkRequest, Peer};
use toolyard_proto::error::code;
use toolyard_proto::{CallError, Id, Method, Raw, Revision, RpcError};

use super::{convert, request};
use crate::call::Call;
use crate::tasks;
use crate::upstream::tracked_tasks::TrackedTask;
use crate::upstream::{Lease, Upstream};

/// How long a task that we make for a client may live.
const TTL: Duration = Duration::from_hours(1);
/// How long an upstream may take to answer about a task that no client waits for.
const PATIENCE: Duration = Duration::from_secs(30);
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Whether a call of this tool must be made as a task although the client does not ask for one.
pub(super) fn is_required(call: &Call, greeting: &Greeting) -> bool {
    let Some(entry) = call.entry.as_ref().filter(|_| call.method == Method::TOOLS_CALL) else { return false };
    let declared = greeting.revision == Revision::V2025_11_25
        && greeting.capabilities.at(&["tasks", "requests", "tools", "call"]).is_some();
    let support = entry.own.at(&["execution", "taskSupport"]);
    declared && support.is_some_and(|support| support.as_bytes() == b"\"required\"")
}

/// Makes the task. A client that supports tasks gets the task; any other client waits for the result.
pub(super) async fn run(call: &Call, lease: &Arc<Lease>, params: Raw) -> Answer {
    let link = lease.link();
    let ttl = u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX);
    let params = params.with("task", &json!({ "ttl": ttl }).into());
    let made = request(&call.origin, call.id.clone(), call.method.clone(), params);
    let making = call.upstream.links.task_owners.making();
    let created = whole(link.call(made, call.peer.clone()).await?)?;
    let Some(task) = created.member("task") else {
        return Ok(AnswerBody::Whole(created, link.greeting().revision));
    };
    let id = task.member("taskId").and_then(|id| id.as_string());
    let id = id.ok_or_else(|| CallError::bad_answer("its task has no `taskId`"))?;
    if !lease.is_apart() {
        call.upstream.links.task_owners.made(&id, &call.origin);
    }
    drop(making);
    if tasks::declared(&call.origin) {
        let held = hold(call, lease, &id);
        let flat = known_as(held.shown_id(), &convert::task_from_legacy(&task));
        let flat = flat.with("resultType", &Raw::from_serialize(&"task"));
        return Ok(AnswerBody::Whole(flat, link.greeting().revision));
    }
    let abandoned = CancelOnDrop::new(call, link, &id);
    let result = whole(link.call(about(call, Method::TASKS_RESULT, &id), call.peer.clone()).await?);
    abandoned.finished();
    Ok(AnswerBody::Whole(result?.without_in("_meta", &[RELATED_TASK]), link.greeting().revision))
}

/// A request about a task, on behalf of the same client.
fn about(call: &Call, method: Method, task: &str) -> LinkRequest {
    let id = Id::string(&format!("yard-{method}-{task}"));
    request(&call.origin, id, method, json!({ "taskId": task }).into())
}

fn whole(answer: AnswerBody) -> Result<Raw, CallError> {
    match answer {
        AnswerBody::Whole(result, _) => Ok(result),
        AnswerBody::Stream(_) => Err(CallError::internal("a whole answer was asked for")),
    }
}

/// A legacy upstream asks its questions on the request for the result, so that is held open from the start.
fn hold(call: &Call, lease: &Arc<Lease>, id: &str) -> Arc<TrackedTask> {
    let link = lease.link().clone();
    let held = call.upstream.links.tracked_tasks.hold(id, lease, &call.origin, TTL);
    let known = held.clone();
    let waiting = link.call(about(call, Method::TASKS_RESULT, id), Peer::new(held.clone()));
    let at_the_end = about(call, Method::TASKS_GET, id);
    call.upstream.life.later(Box::pin(async move {
        let outcome = tokio::time::timeout(TTL, waiting).await;
        let outcome = outcome.unwrap_or_else(|_| Err(CallError::timeout("the task took too long")));
        let task = tokio::time::timeout(PATIENCE, link.call(at_the_end, Peer::none())).await;
        let task = task.ok().and_then(Result::ok).and_then(|task| whole(task).ok());
        held.end(task.unwrap_or_else(Raw::empty_object), outcome.and_then(whole));
    }));
    known
}

fn known_as(id: &str, task: &Raw) -> Raw {
    task.with("taskId", &Raw::from_serialize(&id))
}

/// The task's id at the upstream, and the tracked task if there is one.
fn held_by(call: &Call) -> Result<(String, Option<Arc<TrackedTask>>), CallError> {
    if !tasks::declared(&call.origin) {
        return Err(tasks::undeclared());
    }
    let id = call.params.member("taskId").and_then(|id| id.as_string());
    let id = id.ok_or_else(|| CallError::invalid_params("`params.taskId` must be a string"))?;
    let held = call.upstream.links.tracked_tasks.find(&id, &call.origin)?;
    if let Some(held) = held {
        return Ok((held.own_id().to_owned(), Some(held)));
    }
    call.upstream.links.task_owners.check(&call.params, &call.origin)?;
    Ok((id, None))
}

/// `tasks/get`: the status of the task, with its result or its questions.
pub(super) async fn get(call: &Call, link: &Arc<dyn Link>) -> Answer {
    let (id, held) = held_by(call)?;
    let found = match held.as_deref().map(TrackedTask::status) {
        Some(TrackedStatus::Ended(task, outcome)) => with_outcome(&convert::task_from_legacy(&task), outcome),
        status_now => {
            let lease = held.as_ref().and_then(|held| held.lease());
            let link = lease.as_ref().map_or(link, |lease| lease.link());
            let task = whole(link.call(about(call, Method::TASKS_GET, &id), Peer::none()).await?)?;
            let task = convert::task_from_legacy(&task);
            match status_now {
                Some(TrackedStatus::Asking(questions)) => {
                    status(&task, "input_required").with("inputRequests", &questions)
                }
                Some(_) if is(&task, "cancelled") => task,
                Some(_) => status(&task, "working"),
                None => without_holding(call, link, &id, task).await,
            }
        }
    };
    let found = match &held {
        Some(held) => known_as(held.shown_id(), &found),
        None => found,
    };
    let info = link.greeting().server_info.as_ref();
    Ok(AnswerBody::ours(convert::result_from_legacy(&call.method, &found, info)))
}

/// A task from before the gateway was started: its questions cannot be received, its result can.
async fn without_holding(call: &Call, link: &Arc<dyn Link>, id: &str, task: Raw) -> Raw {
    if !is(&task, "completed") && !is(&task, "failed") {
        return task;
    }
    let result = link.call(about(call, Method::TASKS_RESULT, id), Peer::none()).await;
    with_outcome(&task, result.and_then(whole))
}

/// The status of a task that the gateway tracks.
pub(crate) enum TrackedStatus {
    Working,
    Asking(Raw),
    /// With the upstream's last status of it, and the outcome.
    Ended(Raw, Result<Raw, CallError>),
}

fn status(task: &Raw, status: &str) -> Raw {
    task.with("status", &Raw::from_serialize(&status))
}

fn is(task: &Raw, status: &str) -> bool {
    task.member("status").and_then(|found| found.as_string()).is_some_and(|found| found == status)
}

/// A failed tool result is a result; a task has failed only if there is no result at all.
fn with_outcome(task: &Raw, outcome: Result<Raw, CallError>) -> Raw {
    match outcome {
        _ if is(task, "cancelled") => task.clone(),
        Ok(result) => status(task, "completed").with("result", &result.without_in("_meta", &[RELATED_TASK])),
        Err(error) => {
            let error = RpcError { code: error.code(), message: error.message(), data: None };
            status(task, "failed").with("error", &error.to_raw())
        }
    }
}

/// `tasks/update`: the client's answers to the task's questions.
pub(super) fn update(call: &Call) -> Answer {
    let (id, held) = held_by(call)?;
    let held = held.ok_or_else(|| CallError::invalid_params(format!("task {id:?} has no open question")))?;
    let responses = call.params.member("inputResponses").filter(Raw::is_object);
    held.answer(&responses.ok_or_else(|| CallError::invalid_params("`inputResponses` must be an object"))?);
    Ok(acknowledged())
}

/// `tasks/cancel`: cancelling a task that is over is not an error.
pub(super) async fn cancel(call: &Call, link: &Arc<dyn Link>) -> Answer {
    let (id, held) = held_by(call)?;
    let lease = held.as_ref().and_then(|held| held.lease());
    let link = lease.as_ref().map_or(link, |lease| lease.link());
    match link.call(about(call, Method::TASKS_CANCEL, &id), Peer::none()).await {
        Err(_) if held.is_some_and(|held| held.lease().is_none()) => {}
        Err(error) if error.code() == code::INVALID_PARAMS => {
            link.call(about(call, Method::TASKS_GET, &id), Peer::none()).await.map_err(|_| error)?;
        }
        answer => drop(answer?),
    }
    Ok(acknowledged())
}

fn acknowledged() -> AnswerBody {
    AnswerBody::ours(json!({ "resultType": "complete" }).into())
}

/// Cancels a task whose client disconnected before the result was there.
pub(super) struct CancelOnDrop {
    upstream: Arc<Upstream>,
    link: Arc<dyn Link>,
    request: Option<LinkRequest>,
}

impl CancelOnDrop {
    fn new(call: &Call, link: &Arc<dyn Link>, task: &str) -> Self {
        Self::with(call, link, about(call, Method::TASKS_CANCEL, task))
    }

    pub(super) fn with(call: &Call, link: &Arc<dyn Link>, request: LinkRequest) -> Self {
        Self { upstream: call.upstream.clone(), link: link.clone(), request: Some(request) }
    }

    pub(super) fn finished(mut self) {
        self.request = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let cancelling = tokio::time::timeout(PATIENCE, self.link.call(request, Peer::none()));
            self.upstream.life.later(Box::pin(async move { drop(cancelling.await) }));
        }
    }
}
