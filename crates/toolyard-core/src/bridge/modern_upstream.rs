//! A legacy client at a modern upstream: `input_required` becomes questions on the client's own stream, and
//! their answers go back with the upstream's state, until the call is complete.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use toolyard_model::{Answer, AnswerBody, Ask, AskError, Link, LinkRequest, Peer};
use toolyard_proto::splice::members;
use toolyard_proto::{CallError, Id, Method, Raw};

use super::monotonic_progress::monotonic;
use super::{convert, legacy_task_proxy, modern_tasks, request};
use crate::call::Call;
use crate::upstream::Lease;

const MOST_ROUNDS: u32 = 8;
/// An upstream that sheds load answers with a state and no question; it is not asked again at once.
const PACE: Duration = Duration::from_millis(250);

pub(super) async fn converse(call: Call, lease: &Arc<Lease>) -> Answer {
    let link = lease.link();
    if legacy_task_proxy::is_about(&call, link.greeting()) {
        return legacy_task_proxy::answer(&call, lease).await;
    }
    let params = call.params.without(&["task"]);
    if legacy_task_proxy::is_wanted(&call, link.greeting()) {
        let answer = rounds(&call, link, &convert::stamped_with_tasks(&call.origin, &params)).await?;
        return legacy_task_proxy::started(&call, lease, answer);
    }
    let answer = match rounds(&call, link, &convert::stamped(&call.origin, &params)).await {
        // Tasks are declared only now: an upstream that can answer at once should do so.
        Err(error) if modern_tasks::wants_task(&error) => {
            rounds(&call, link, &convert::stamped_with_tasks(&call.origin, &params)).await
        }
        answer => answer,
    };
    match answer? {
        AnswerBody::Whole(task, _) if modern_tasks::is_task(&task) => {
            modern_tasks::follow(&call, link, &task).await
        }
        answer => Ok(answer),
    }
}

/// Repeats the call with the client's answers until there is a result, or a task.
async fn rounds(call: &Call, link: &Arc<dyn Link>, base: &Raw) -> Answer {
    let (mut params, peer) = (base.clone(), monotonic(&call.peer));
    for round in 0..MOST_ROUNDS {
        let answer = link.call(round_of(call, round, params), peer.clone()).await?;
        let AnswerBody::Whole(result, revision) = answer else { return Ok(answer) };
        if !super::asks(&result) {
            return Ok(AnswerBody::Whole(result, revision));
        }
        params = next_round(base, &result, &peer).await?;
    }
    Err(CallError::bad_answer(format!("{} asked {MOST_ROUNDS} times without finishing", call.upstream.id())))
}

fn round_of(call: &Call, round: u32, params: Raw) -> LinkRequest {
    let id = match round {
        0 => call.id.clone(),
        _ => Id::string(&format!("yard-round-{round}-{:?}", call.id)),
    };
    let headers = call.headers.clone();
    let request = request(&call.origin, id, call.method.clone(), params);
    request.with_headers(headers).numbered(call.trace.call, call.parent.clone())
}

/// Asks everything at once and returns the parameters of the next round.
async fn next_round(base: &Raw, result: &Raw, peer: &Peer) -> Result<Raw, CallError> {
    let questions = questions(result);
    if questions.is_empty() {
        tokio::time::sleep(PACE).await;
    }
    let params = base.with("inputResponses", &answers_to(questions, peer).await?);
    Ok(match result.member("requestState") {
        Some(state) => params.with("requestState", &state),
        None => params,
    })
}

pub(super) fn questions(result: &Raw) -> Vec<(String, Ask)> {
    let Some(requests) = result.member("inputRequests") else { return Vec::new() };
    let bytes = requests.as_bytes();
    members(bytes)
        .filter_map(|member| {
            let key = requests.slice(member.key.at.clone()).as_string()?;
            let request = requests.slice(member.value);
            let method = Method::new(&request.member("method")?.as_string()?);
            Some((key, Ask { method, params: request.member("params") }))
        })
        .collect()
}

/// The client's answers, as `inputResponses`.
pub(super) async fn answers_to(questions: Vec<(String, Ask)>, peer: &Peer) -> Result<Raw, CallError> {
    let asked = questions.into_iter().map(|(key, ask)| async move { (key, answer_to(ask, peer).await) });
    let mut responses = Raw::empty_object();
    for (key, answer) in join_all(asked).await {
        responses = responses.with(&key, &answer?);
    }
    Ok(responses)
}

/// A failed question cannot be reported to the upstream, except as a form that was cancelled.
async fn answer_to(ask: Ask, peer: &Peer) -> Result<Raw, CallError> {
    let method = ask.method.clone();
    match peer.ask(ask).await {
        Ok(answer) => Ok(answer),
        Err(AskError::Reported(_) | AskError::Timeout) if method == Method::ELICIT => {
            Ok(serde_json::json!({ "action": "cancel" }).into())
        }
        Err(error) => {
            Err(CallError::cannot_ask(format!("the tool needs `{method}` from the client, but {error}")))
        }
    }
}
