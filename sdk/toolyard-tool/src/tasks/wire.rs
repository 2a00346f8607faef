//! Tasks as each revision spells them: an extension today, a part of the protocol in 2025-11-25, and nothing
//! before.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolyard_model::{Answer, AnswerBody, Ask, Origin, Peer, Request};
use toolyard_proto::error::code;
use toolyard_proto::modern::TASKS_EXTENSION;
use toolyard_proto::{CallError, Raw, Revision, RpcError};

use super::POLL;
use super::task::{Outcome, Putting, Standing, Task};
use super::time::timestamp;

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// What tasks are to a client.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// The server decides which calls become tasks, if the client declares the extension with its request.
    Extension,
    /// The client asks for a task, and fetches its result apart.
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

/// Says among the capabilities that there are tasks, in the words of who asks.
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

/// Whether the client has said that it can handle tasks.
fn declares(origin: &Origin) -> bool {
    origin.capabilities.at(&["extensions", TASKS_EXTENSION]).is_some_and(|said| said.is_object())
}

/// Whether the client can take a task as the answer to this call.
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

/// How long the client wants the task to be kept, if it says so.
pub(super) fn kept_for(request: &Request) -> Option<Duration> {
    let millis: u64 = request.params.at(&["task", "ttl"])?.read().ok()?;
    Some(Duration::from_millis(millis))
}

/// The answer to the call that started a task, however far that is by now.
pub(super) fn started(request: &Request, task: &Task) -> Raw {
    let standing = Standing { outcome: None, questions: Vec::new(), updated: task.created() };
    if form(&request.origin) == Form::Core {
        return json!({ "task": core(task, &standing) }).into();
    }
    let mut said = extension(task, &standing);
    said["resultType"] = "task".into();
    said.into()
}

/// The answer to `tasks/get`.
pub(super) fn details(request: &Request, task: &Task) -> Raw {
    let standing = task.standing();
    match form(&request.origin) {
        Form::Core => core(task, &standing).into(),
        Form::Extension | Form::Unknown => extension(task, &standing).into(),
    }
}

/// The parameters of `notifications/tasks`.
pub(super) fn announcement(task: &Task) -> Raw {
    extension(task, &task.standing()).into()
}

pub(super) fn cancelled(request: &Request, task: &Task, was_running: bool) -> Result<Raw, CallError> {
    match form(&request.origin) {
        Form::Extension | Form::Unknown => Ok(Raw::empty_object()),
        Form::Core if was_running => Ok(core(task, &task.standing()).into()),
        Form::Core => Err(CallError::invalid_params("the task is over and cannot be cancelled")),
    }
}

pub(super) fn list(tasks: &[Arc<Task>]) -> Raw {
    let tasks: Vec<Value> = tasks.iter().map(|task| core(task, &task.standing())).collect();
    json!({ "tasks": tasks }).into()
}

/// `tasks/result`: waits for the end, and passes the task's questions on while it does.
pub(super) async fn result(task: Arc<Task>, peer: Peer) -> Answer {
    loop {
        let seen = task.version();
        if let Some(outcome) = task.standing().outcome {
            return Ok(AnswerBody::ours(related(&outcome.into_answer()?, &task)));
        }
        match task.put_next() {
            Some(question) => put(question, &task, &peer).await,
            None => drop(task.changed_since(seen).await),
        }
    }
}

/// Asks the client that waits, until it answers or the answer is not needed any more.
async fn put(question: Putting, task: &Task, peer: &Peer) {
    let params = question.ask.params.clone().unwrap_or_else(Raw::empty_object);
    let ask = Ask { method: question.ask.method.clone(), params: Some(related(&params, task)) };
    tokio::select! {
        answer = peer.ask(ask) => question.take_answer(answer),
        () = question.settled() => {}
    }
}

fn related(object: &Raw, task: &Task) -> Raw {
    object.with_path(&["_meta", RELATED_TASK, "taskId"], &Raw::from_serialize(&task.id()))
}

/// A tool that failed has completed all the same: only errors of the protocol are failures.
fn extension(task: &Task, standing: &Standing) -> Value {
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
fn core(task: &Task, standing: &Standing) -> Value {
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
