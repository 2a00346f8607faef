//! Tasks as the protocol spells them: the extension of the newest revision, and the tasks of 2025-11-25.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolyard_proto::error::code;
use toolyard_proto::modern::TASKS_EXTENSION;
use toolyard_proto::{CallError, Raw, Revision, RpcError};
use toolyard_transport::{Answer, AnswerBody, Ask, Origin, Peer, Request};

use super::POLL;
use super::task::{Outcome, Standing, Task};
use super::time::timestamp;

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Says among the capabilities that there are tasks, in the words of who asks.
pub(crate) fn declare(origin: &Origin, capabilities: &mut Value) {
    if origin.is_modern() {
        capabilities["extensions"] = json!({ TASKS_EXTENSION: {} });
    } else if knows(origin) {
        capabilities["tasks"] = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
}

/// Whether this revision has tasks at all.
fn knows(origin: &Origin) -> bool {
    origin.revision >= Revision::V2025_11_25
}

/// Whether the client has said that it can handle tasks.
fn declares(origin: &Origin) -> bool {
    origin.capabilities.at(&["extensions", TASKS_EXTENSION]).is_some_and(|said| said.is_object())
}

/// Modern servers decide alone, if the client can handle it; older clients ask for a task.
pub(super) fn wants_task(request: &Request) -> bool {
    if request.origin.is_modern() {
        return declares(&request.origin);
    }
    knows(&request.origin) && request.params.member("task").is_some_and(|task| task.is_object())
}

pub(super) fn needs_tasks(request: &Request) -> CallError {
    if request.origin.is_modern() {
        return undeclared();
    }
    let message = "this tool runs as a task only: call it with `task`";
    CallError::reported(RpcError::new(code::METHOD_NOT_FOUND, message).to_raw())
}

/// Whether the client may ask about tasks.
pub(super) fn allowed(request: &Request) -> Result<(), CallError> {
    match &request.origin {
        origin if origin.is_modern() && !declares(origin) => Err(undeclared()),
        origin if !knows(origin) => Err(CallError::unknown_method(request.method.as_str())),
        _ => Ok(()),
    }
}

fn undeclared() -> CallError {
    let required = json!({ "extensions": { TASKS_EXTENSION: {} } });
    CallError::missing_capability(
        required.into(),
        "this needs the tasks extension among the client's capabilities",
    )
}

/// `tasks/list` and `tasks/result` are gone from the newest revision.
pub(super) fn knows_lists(request: &Request) -> bool {
    !request.origin.is_modern() && knows(&request.origin)
}

/// How long the client wants the task to be kept, if it says so.
pub(super) fn kept_for(request: &Request) -> Option<Duration> {
    let millis: u64 = request.params.at(&["task", "ttl"])?.read().ok()?;
    Some(Duration::from_millis(millis))
}

/// The answer to the call that started a task.
pub(super) fn started(request: &Request, task: &Task) -> Raw {
    let standing = task.standing();
    if request.origin.is_modern() {
        let mut said = newest(task, &standing);
        said["resultType"] = "task".into();
        return said.into();
    }
    json!({ "task": older(task, &standing) }).into()
}

/// The answer to `tasks/get`.
pub(super) fn details(request: &Request, task: &Task) -> Raw {
    let standing = task.standing();
    if request.origin.is_modern() { newest(task, &standing).into() } else { older(task, &standing).into() }
}

/// The parameters of `notifications/tasks`.
pub(super) fn announcement(task: &Task) -> Raw {
    newest(task, &task.standing()).into()
}

pub(super) fn cancelled(request: &Request, task: &Task, was_running: bool) -> Result<Raw, CallError> {
    match request.origin.is_modern() {
        true => Ok(Raw::empty_object()),
        false if was_running => Ok(older(task, &task.standing()).into()),
        false => Err(CallError::invalid_params("the task is over and cannot be cancelled")),
    }
}

pub(super) fn list(_: &Request, tasks: &[Arc<Task>]) -> Raw {
    let tasks: Vec<Value> = tasks.iter().map(|task| older(task, &task.standing())).collect();
    json!({ "tasks": tasks }).into()
}

/// `tasks/result`: waits for the end, and passes the task's questions on while it does.
pub(super) async fn result(task: Arc<Task>, peer: Peer) -> Answer {
    loop {
        let seen = task.version();
        let standing = task.standing();
        match (standing.outcome, standing.questions.into_iter().next()) {
            (Some(Outcome::Result(result)), _) => {
                return Ok(AnswerBody::ours(related(&result, &task)));
            }
            (Some(Outcome::Error(error)), _) => return Err(error),
            (Some(Outcome::Cancelled), _) => return Err(CallError::cancelled()),
            (None, Some((key, ask))) => {
                let params = ask.params.clone().unwrap_or_else(Raw::empty_object);
                let ask = Ask { method: ask.method, params: Some(related(&params, &task)) };
                let answer = peer.ask(ask).await;
                task.take_answer(&key, answer);
            }
            (None, None) => {
                task.changed_since(seen).await;
            }
        }
    }
}

fn related(object: &Raw, task: &Task) -> Raw {
    object.with_path(&["_meta", RELATED_TASK, "taskId"], &Raw::from_serialize(&task.id()))
}

/// A tool that failed has completed all the same: only errors of the protocol are failures.
fn newest(task: &Task, standing: &Standing) -> Value {
    let status = match &standing.outcome {
        None if standing.questions.is_empty() => "working",
        None => "input_required",
        Some(Outcome::Result(_)) => "completed",
        Some(Outcome::Error(_)) => "failed",
        Some(Outcome::Cancelled) => "cancelled",
    };
    let mut said = base(task, standing, status, ("ttlMs", "pollIntervalMs"));
    match &standing.outcome {
        Some(Outcome::Result(result)) => said["result"] = json!(result),
        Some(Outcome::Error(error)) => said["error"] = json!(error.to_raw()),
        None if !standing.questions.is_empty() => {
            let request = |ask: &Ask| json!({ "method": ask.method.as_str(), "params": ask.params });
            let requests = standing.questions.iter().map(|(key, ask)| (key.clone(), request(ask)));
            said["inputRequests"] = Value::Object(requests.collect::<Map<_, _>>());
        }
        _ => {}
    }
    said
}

/// In 2025-11-25 a tool that failed is a task that failed, and the result is fetched apart.
fn older(task: &Task, standing: &Standing) -> Value {
    let status = match &standing.outcome {
        None if standing.questions.is_empty() => "working",
        None => "input_required",
        Some(Outcome::Result(result)) if is_failure(result) => "failed",
        Some(Outcome::Result(_)) => "completed",
        Some(Outcome::Error(_)) => "failed",
        Some(Outcome::Cancelled) => "cancelled",
    };
    base(task, standing, status, ("ttl", "pollInterval"))
}

fn base(task: &Task, standing: &Standing, status: &str, names: (&str, &str)) -> Value {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "taskId": task.id(),
        "status": status,
        "createdAt": timestamp(task.created()),
        "lastUpdatedAt": timestamp(standing.updated),
        names.0: millis(task.kept_for()),
        names.1: millis(POLL),
    })
}

fn is_failure(result: &Raw) -> bool {
    result.member("isError").is_some_and(|flag| flag.as_bytes() == b"true")
}
