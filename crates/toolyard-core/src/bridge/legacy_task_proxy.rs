//! Tasks of a modern upstream for a 2025-11-25 client that requests them: they are the upstream's own, converted to the
//! form of the client's revision. If the upstream answers at once, its answer is kept as a finished task, because the
//! client expects a task.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::time::Instant;
use toolyard_model::{Answer, AnswerBody, Ask, Greeting, Link, Origin};
use toolyard_proto::calendar::rfc3339;
use toolyard_proto::error::code::INVALID_PARAMS;
use toolyard_proto::modern::{LIST_TASKS, TASKS_EXTENSION};
use toolyard_proto::{CallError, Method, Raw, Revision};

use super::convert;
use super::modern_tasks::{about, ask, is_task, outcome, pace, status_of};
use super::modern_upstream::{answers_to, questions};
use crate::call::Call;
use crate::upstream::Lease;
use crate::upstream::task_owners::names_task;

/// How long an answer that came at once is kept.
const KEPT: Duration = Duration::from_hours(1);
/// How long the upstream may take to report the status of a task, however long the task itself takes.
const STATUS_WITHIN: Duration = Duration::from_secs(30);
/// How long a cancelled task may take to stop before its client is answered that it has not stopped yet.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);
/// How many tasks one answer lists, the newest.
const LISTED: usize = 250;
/// How many of them are requested from the upstream at the same time.
const ASKED_AT_ONCE: usize = 8;
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Whether a client may ask for tasks of an upstream that declares these capabilities.
pub(super) fn are_offered(origin: &Origin, capabilities: &Raw) -> bool {
    origin.revision == Revision::V2025_11_25 && capabilities.at(&["extensions", TASKS_EXTENSION]).is_some()
}

/// Whether a call asks for a task, and its tool supports that.
pub(super) fn is_wanted(call: &Call, greeting: &Greeting) -> bool {
    let support = call.entry.as_ref().and_then(|entry| entry.own.at(&["execution", "taskSupport"]));
    are_offered(&call.origin, &greeting.capabilities)
        && call.method == Method::TOOLS_CALL
        && call.params.member("task").is_some_and(|task| task.is_object())
        && support.is_some_and(|support| support.as_bytes() != b"\"forbidden\"")
}

/// Whether a request is about tasks that a client may have asked for.
pub(super) fn is_about(call: &Call, greeting: &Greeting) -> bool {
    are_offered(&call.origin, &greeting.capabilities)
        && (names_task(&call.method) || call.method == Method::TASKS_LIST)
}

/// The answer to a call that asked for a task: the upstream's task, or one that is over.
pub(super) fn started(call: &Call, lease: &Arc<Lease>, answer: AnswerBody) -> Answer {
    let AnswerBody::Whole(result, _) = answer else {
        return Err(CallError::internal("a whole answer was asked for"));
    };
    let task = if is_task(&result) { result } else { over(call, lease, &result) };
    let id = task.member("taskId").and_then(|id| id.as_string());
    let id = id.ok_or_else(|| CallError::bad_answer("its task has no `taskId`"))?;
    call.upstream.links.task_owners.made(&id, &call.origin);
    Ok(AnswerBody::ours(Raw::empty_object().with("task", &convert::task_for_legacy(&task))))
}

/// Keeps an answer as a task that is over. `taskId` and times are ours.
fn over(call: &Call, lease: &Arc<Lease>, result: &Raw) -> Raw {
    let now = rfc3339(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let ttl = u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
    let held = call.upstream.links.tracked_tasks.hold(&random(), lease, &call.origin, KEPT);
    let task = json!({
        "taskId": held.shown_id(), "status": "completed", "createdAt": now, "lastUpdatedAt": now, "ttlMs": ttl,
    });
    let task = Raw::from(task).with("result", result);
    call.upstream.links.tracked_tasks.end_at_once(&held, &task);
    task
}

fn random() -> String {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    format!("yard-{}", BASE64URL_NOPAD.encode(&bytes))
}

/// `tasks/get`, `tasks/result`, `tasks/cancel` and `tasks/list`.
pub(super) async fn answer(call: &Call, lease: &Arc<Lease>) -> Answer {
    let link = lease.link();
    if call.method == Method::TASKS_LIST {
        return list(call, link).await;
    }
    let id = call.params.member("taskId").and_then(|id| id.as_string());
    let id = id.ok_or_else(|| CallError::invalid_params("`params.taskId` must be a string"))?;
    // If each client has its own session or process, the upstream itself separates their tasks. So does a pack.
    if !lease.is_apart() && !link.is_in_process() {
        call.upstream.links.task_owners.check(&call.params, &call.origin)?;
    }
    if call.method == Method::TASKS_RESULT {
        return result(call, link, &id).await;
    }
    let task = task_status(call, link, &id).await?;
    if call.method == Method::TASKS_GET {
        return Ok(AnswerBody::ours(convert::task_for_legacy(&task)));
    }
    if is_over(&task) {
        return Err(CallError::invalid_params("the task is over and cannot be cancelled"));
    }
    cancel(call, link, &id).await
}

/// The upstream's answer only confirms the request; the client wants to know whether the task has stopped.
async fn cancel(call: &Call, link: &Arc<dyn Link>, id: &str) -> Answer {
    drop(in_time(ask(link, about(call, Method::TASKS_CANCEL, id, None))).await?);
    let mut task = task_status(call, link, id).await?;
    let until = Instant::now() + STOPPED_WITHIN;
    while !is_over(&task) && Instant::now() < until {
        tokio::time::sleep(pace(&task).min(STOPPED_WITHIN / 10)).await;
        task = task_status(call, link, id).await?;
    }
    Ok(AnswerBody::ours(convert::task_for_legacy(&task)))
}

/// The status of a task in the modern form.
async fn task_status(call: &Call, link: &Arc<dyn Link>, id: &str) -> Result<Raw, CallError> {
    if let Some(task) = call.upstream.links.tracked_tasks.find(id, &call.origin)?.and_then(|held| held.over())
    {
        return Ok(task);
    }
    in_time(ask(link, about(call, Method::TASKS_GET, id, None))).await
}

/// The upstream's answer about a task, or an error if it takes too long.
async fn in_time(asking: impl Future<Output = Result<Raw, CallError>>) -> Result<Raw, CallError> {
    tokio::time::timeout(STATUS_WITHIN, asking).await.unwrap_or_else(|_| Err(silent()))
}

fn silent() -> CallError {
    let limit = STATUS_WITHIN.as_secs();
    CallError::timeout(format!(
        "it did not report the status of its task within {limit} s; ask for the result again"
    ))
}

fn is_over(task: &Raw) -> bool {
    !["working", "input_required"].contains(&status_of(task).as_str())
}

/// The tasks of this client: from a pack, all that it knows; from other upstreams, those that the client asked for
/// since the gateway was started and that are still known.
async fn list(call: &Call, link: &Arc<dyn Link>) -> Answer {
    if link.is_in_process() {
        return list_of_pack(call, link).await;
    }
    let ids = call.upstream.links.task_owners.of(&call.origin, LISTED);
    let mut asking =
        stream::iter(ids).map(|id| async move { task_status(call, link, &id).await }).buffered(ASKED_AT_ONCE);
    let mut tasks = Vec::new();
    while let Some(task_status) = asking.next().await {
        match task_status {
            Ok(task) => tasks.push(convert::task_for_legacy(&task)),
            // The task has expired.
            Err(error) if error.code() == INVALID_PARAMS => {}
            Err(error) => return Err(error),
        }
    }
    Ok(AnswerBody::ours(Raw::empty_object().with("tasks", &Raw::array(&tasks))))
}

async fn list_of_pack(call: &Call, link: &Arc<dyn Link>) -> Answer {
    let listed = in_time(ask(link, about(call, Method::new(LIST_TASKS), "", None))).await?;
    let tasks = listed.member("tasks").and_then(|tasks| tasks.read::<Vec<Raw>>().ok()).unwrap_or_default();
    let newest = tasks.len().saturating_sub(LISTED);
    let mut tasks: Vec<Raw> = tasks[newest..].iter().map(convert::task_for_legacy).collect();
    // Answers that came at once are kept here.
    for id in call.upstream.links.task_owners.of(&call.origin, LISTED) {
        let held = call.upstream.links.tracked_tasks.find(&id, &call.origin)?;
        tasks.extend(held.and_then(|held| held.over()).map(|task| convert::task_for_legacy(&task)));
    }
    Ok(AnswerBody::ours(Raw::empty_object().with("tasks", &Raw::array(&tasks))))
}

/// Waits for the end of the task, and puts its questions to the client. A client that stops waiting may ask for the
/// result again: the task continues.
async fn result(call: &Call, link: &Arc<dyn Link>, id: &str) -> Answer {
    let mut answered = HashSet::new();
    loop {
        let task = task_status(call, link, id).await?;
        let status = status_of(&task);
        if status == "cancelled" {
            return Err(CallError::cancelled());
        }
        if is_over(&task) {
            let AnswerBody::Whole(result, revision) = outcome(&task, &status, link)? else {
                return Err(CallError::internal("the outcome of a task is whole"));
            };
            return Ok(AnswerBody::Whole(related(&result, id), revision));
        }
        let mut asked = questions(&task);
        asked.retain(|(key, _)| answered.insert(key.clone()));
        if asked.is_empty() {
            tokio::time::sleep(pace(&task)).await;
            continue;
        }
        let asked = asked.into_iter().map(|(key, ask)| (key, about_task(call, ask, id))).collect();
        let answers = answers_to(asked, &call.peer).await?;
        drop(in_time(ask(link, about(call, Method::TASKS_UPDATE, id, Some(&answers)))).await?);
    }
}

/// A question with the task that it belongs to, under the id that the client knows.
fn about_task(call: &Call, ask: Ask, id: &str) -> Ask {
    let params = ask.params.unwrap_or_else(Raw::empty_object);
    let related = related(&params, id);
    let shown = |related| crate::tasks::shown(call.upstream.id(), &call.origin, related);
    let shown = if call.edits.tasks { shown(&related) } else { related };
    Ask { method: ask.method, params: Some(shown) }
}

fn related(object: &Raw, id: &str) -> Raw {
    object.with_path(&["_meta", RELATED_TASK, "taskId"], &Raw::from_serialize(&id))
}
