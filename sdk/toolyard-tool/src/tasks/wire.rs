//! Tasks in the form of each revision: an extension today, a part of the protocol in 2025-11-25, and nothing
//! before.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolyard_model::{Answer, AnswerBody, Ask, Origin, Peer, Request};
use toolyard_proto::error::code;
use toolyard_proto::modern::TASKS_EXTENSION;
use toolyard_proto::{CallError, Raw, Revision, RpcError};

use super::POLL;
use super::task::{Outcome, Putting, Task, TaskSnapshot};
use super::time::timestamp;

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The form of tasks for a client.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// The server decides which calls become tasks, if the client declares the extension with its request.
    Extension,
    /// The client asks for a task, and fetches its result with a separate request.
    Core,
    Unknown,
}

fn form(origin: &Origin) -> Form {
    match origin.revision {
        revision if revision > Revision::V2025_11_25 => Form::Extension,
        Revision::V2025_11_25 => Form::Core,
        _ => Form::Unknown,
    }
}

/// Declares tasks among the capabilities, in the form of the client's revision.
pub(crate) fn declare(origin: &Origin, capabilities: &mut Value) {
    match form(origin) {
        Form::Extension => capabilities["extensions"] = json!({ TASKS_EXTENSION: {} }),
        Form::Core => {
            capabilities["tasks"] =
                json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
        }
        Form::Unknown => {}
    }
}

/// Whether the client has declared that it can handle tasks.
fn declares(origin: &Origin) -> bool {
    origin.capabilities.at(&["extensions", TASKS_EXTENSION]).is_some_and(|tasks| tasks.is_object())
}

/// Whether the client accepts a task as the answer to this call.
pub(super) fn wants_task(request: &Request) -> bool {
    match form(&request.origin) {
        Form::Extension => declares(&request.origin),
        Form::Core => request.params.member("task").is_some_and(|task| task.is_object()),
        Form::Unknown => false,
    }
}

pub(super) fn needs_tasks(request: &Request) -> CallError {
    if form(&request.origin) == Form::Extension {
        return undeclared();
    }
    let message = "this tool runs as a task only: call it with `task`";
    CallError::reported(RpcError::new(code::METHOD_NOT_FOUND, message).to_raw())
}

/// Whether the client may ask about tasks.
pub(super) fn allowed(request: &Request) -> Result<(), CallError> {
    match form(&request.origin) {
        Form::Extension if !declares(&request.origin) => Err(undeclared()),
        Form::Unknown => Err(CallError::unknown_method(request.method.as_str())),
        Form::Extension | Form::Core => Ok(()),
    }
}

fn undeclared() -> CallError {
    let required = json!({ "extensions": { TASKS_EXTENSION: {} } });
    CallError::missing_capability(
        required.into(),
        "this needs the tasks extension among the client's capabilities",
    )
}

/// The extension has no `tasks/list` and no `tasks/result`.
pub(super) fn knows_lists(request: &Request) -> bool {
    form(&request.origin) == Form::Core
}

/// How long the client wants the task to be kept, if it asks for a time.
pub(super) fn kept_for(request: &Request) -> Option<Duration> {
    let millis: u64 = request.params.at(&["task", "ttl"])?.read().ok()?;
    Some(Duration::from_millis(millis))
}

/// The answer to the call that started a task, whatever its state by now.
pub(super) fn started(request: &Request, task: &Task) -> Raw {
    let now = task.snapshot();
    let snapshot =
        TaskSnapshot { outcome: None, questions: Vec::new(), message: None, updated: now.created, ..now };
    if form(&request.origin) == Form::Core {
        return json!({ "task": core(&snapshot) }).into();
    }
    let mut object = extension(&snapshot);
    object["resultType"] = "task".into();
    object.into()
}

/// The answer to `tasks/get`.
pub(super) fn details(origin: &Origin, snapshot: &TaskSnapshot) -> Raw {
    match form(origin) {
        Form::Core => core(snapshot).into(),
        Form::Extension | Form::Unknown => extension(snapshot).into(),
    }
}

/// The parameters of `notifications/tasks`.
pub(super) fn announcement(snapshot: &TaskSnapshot) -> Raw {
    extension(snapshot).into()
}

pub(super) fn cancelled(
    origin: &Origin,
    snapshot: &TaskSnapshot,
    was_running: bool,
) -> Result<Raw, CallError> {
    match form(origin) {
        Form::Extension | Form::Unknown => Ok(Raw::empty_object()),
        Form::Core if was_running => Ok(core(snapshot).into()),
        Form::Core => Err(CallError::invalid_params("the task is over and cannot be cancelled")),
    }
}

pub(super) fn list(origin: &Origin, tasks: &[TaskSnapshot]) -> Raw {
    let tasks: Vec<Raw> = tasks.iter().map(|task| details(origin, task)).collect();
    json!({ "tasks": tasks }).into()
}

/// `tasks/result`: waits for the end, and passes the task's questions on while it does.
pub(super) async fn result(task: Arc<Task>, peer: Peer) -> Answer {
    loop {
        let seen = task.version();
        let snapshot = task.stored_snapshot().await?;
        if snapshot.outcome.is_some() {
            return outcome_of(snapshot);
        }
        match task.put_next() {
            Some(question) => put(question, task.id(), &peer).await,
            None => drop(task.changed_since(seen).await),
        }
    }
}

/// The answer to `tasks/result` of a task that is over.
pub(super) fn outcome_of(snapshot: TaskSnapshot) -> Answer {
    let TaskSnapshot { outcome, id, .. } = snapshot;
    let outcome = outcome.ok_or_else(|| CallError::unavailable("another program runs this task"))?;
    Ok(AnswerBody::ours(related(&outcome.into_answer()?, &id)))
}

/// Asks the waiting client, until it answers or the answer is no longer needed.
async fn put(question: Putting, task: &str, peer: &Peer) {
    let params = question.ask.params.clone().unwrap_or_else(Raw::empty_object);
    let ask = Ask { method: question.ask.method.clone(), params: Some(related(&params, task)) };
    tokio::select! {
        answer = peer.ask(ask) => question.take_answer(answer),
        () = question.settled() => {}
    }
}

fn related(object: &Raw, task: &str) -> Raw {
    object.with_path(&["_meta", RELATED_TASK, "taskId"], &Raw::from_serialize(&task))
}

/// A tool that failed has completed nevertheless: only errors of the protocol are failures.
fn extension(snapshot: &TaskSnapshot) -> Value {
    let status = match &snapshot.outcome {
        None if snapshot.questions.is_empty() => "working",
        None => "input_required",
        Some(Outcome::Result(_)) => "completed",
        Some(Outcome::Error(_)) => "failed",
        Some(Outcome::Cancelled) => "cancelled",
    };
    let mut object = base(snapshot, status, ("ttlMs", "pollIntervalMs"));
    match &snapshot.outcome {
        Some(Outcome::Result(result)) => object["result"] = json!(result),
        Some(Outcome::Error(error)) => object["error"] = json!(error.to_raw()),
        None if !snapshot.questions.is_empty() => {
            let request = |ask: &Ask| json!({ "method": ask.method.as_str(), "params": ask.params });
            let requests = snapshot.questions.iter().map(|(key, ask)| (key.clone(), request(ask)));
            object["inputRequests"] = Value::Object(requests.collect::<Map<_, _>>());
        }
        _ => {}
    }
    object
}

/// In 2025-11-25 a tool that failed is a failed task, and its result is fetched with a separate request.
fn core(snapshot: &TaskSnapshot) -> Value {
    let status = match &snapshot.outcome {
        None if snapshot.questions.is_empty() => "working",
        None => "input_required",
        Some(Outcome::Result(result)) if is_failure(result) => "failed",
        Some(Outcome::Result(_)) => "completed",
        Some(Outcome::Error(_)) => "failed",
        Some(Outcome::Cancelled) => "cancelled",
    };
    base(snapshot, status, ("ttl", "pollInterval"))
}

fn base(snapshot: &TaskSnapshot, status: &str, names: (&str, &str)) -> Value {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut base = json!({
        "taskId": snapshot.id,
        "status": status,
        "createdAt": timestamp(snapshot.created),
        "lastUpdatedAt": timestamp(snapshot.updated),
        names.0: millis(snapshot.kept_for),
        names.1: millis(POLL),
    });
    if let Some(message) = &snapshot.message {
        base["statusMessage"] = message.as_str().into();
    }
    base
}

fn is_failure(result: &Raw) -> bool {
    result.member("isError").is_some_and(|flag| flag.as_bytes() == b"true")
}
