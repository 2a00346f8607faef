//! Tools of a modern upstream that run only as tasks, for a client without support for tasks: the gateway polls the
//! task until it is done, puts its questions to the client, and returns the result.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use toolyard_model::{Answer, AnswerBody, Link, LinkRequest, Peer};
use toolyard_proto::modern::TASKS_EXTENSION;
use toolyard_proto::{CallError, Id, Kind, Method, Raw};

use super::legacy_tasks::CancelOnDrop;
use super::modern_upstream::{answers_to, questions};
use super::{convert, request};
use crate::call::Call;

const POLL: Duration = Duration::from_secs(1);
const SHORTEST_POLL: Duration = Duration::from_millis(50);
const LONGEST_POLL: Duration = Duration::from_secs(30);

/// Whether an upstream refused a call only because the client does not know tasks.
pub(super) fn wants_task(error: &CallError) -> bool {
    let required = match &error.kind {
        Kind::Reported(raw) => raw.at(&["data", "requiredCapabilities", "extensions", TASKS_EXTENSION]),
        Kind::MissingCapability(required) => required.at(&["extensions", TASKS_EXTENSION]),
        _ => None,
    };
    required.is_some()
}

pub(super) fn is_task(result: &Raw) -> bool {
    result.member("resultType").is_some_and(|kind| kind.as_bytes() == b"\"task\"")
}

/// Follows a task to its end.
pub(super) async fn follow(call: &Call, link: &Arc<dyn Link>, created: &Raw) -> Answer {
    let id = created.member("taskId").and_then(|id| id.as_string());
    let id = id.ok_or_else(|| CallError::bad_answer("its task has no `taskId`"))?;
    let abandoned = CancelOnDrop::with(call, link, about(call, Method::TASKS_CANCEL, &id, None));
    let mut task = created.clone();
    let mut answered = HashSet::new();
    loop {
        tokio::time::sleep(pace(&task)).await;
        task = ask(link, about(call, Method::TASKS_GET, &id, None)).await?;
        let status = status_of(&task);
        match status.as_str() {
            "working" => continue,
            "input_required" => {
                let mut asked = questions(&task);
                asked.retain(|(key, _)| answered.insert(key.clone()));
                if !asked.is_empty() {
                    let answers = answers_to(asked, &call.peer).await?;
                    drop(ask(link, about(call, Method::TASKS_UPDATE, &id, Some(&answers))).await?);
                }
                continue;
            }
            _ => abandoned.finished(),
        }
        return outcome(&task, &status, link);
    }
}

pub(super) fn status_of(task: &Raw) -> String {
    task.member("status").and_then(|status| status.as_string()).unwrap_or_default()
}

pub(super) fn outcome(task: &Raw, status: &str, link: &Arc<dyn Link>) -> Answer {
    match (status, task.member("result"), task.member("error")) {
        ("completed", Some(result), _) => Ok(AnswerBody::Whole(result, link.greeting().revision)),
        ("failed", _, Some(error)) => Err(CallError::reported(error)),
        ("cancelled", ..) => Err(CallError::bad_answer("the upstream cancelled its task")),
        _ => Err(CallError::bad_answer(format!("its task is {status:?} without an outcome"))),
    }
}

pub(super) fn pace(task: &Raw) -> Duration {
    let wanted = task.member("pollIntervalMs").and_then(|pace| pace.read().ok());
    wanted.map_or(POLL, Duration::from_millis).clamp(SHORTEST_POLL, LONGEST_POLL)
}

pub(super) fn about(call: &Call, method: Method, task: &str, answers: Option<&Raw>) -> LinkRequest {
    let mut params = Raw::empty_object().with("taskId", &Raw::from_serialize(&task));
    if let Some(answers) = answers {
        params = params.with("inputResponses", answers);
    }
    let params = convert::stamped_with_tasks(&call.origin, &params);
    request(&call.origin, Id::string(&format!("yard-{method}-{task}")), method, params)
}

pub(super) async fn ask(link: &Arc<dyn Link>, request: LinkRequest) -> Result<Raw, CallError> {
    match link.call(request, Peer::none()).await? {
        AnswerBody::Whole(result, _) => Ok(result),
        AnswerBody::Stream(_) => Err(CallError::internal("a whole answer was asked for")),
    }
}
