//! A modern client at a legacy upstream: the modern members of `_meta` are removed from the request, those of a modern
//! result are added to the answer, and a call that requires the user to visit a page is sent again after the visit.

use std::sync::Arc;

use toolyard_model::{Answer, AnswerBody, Ask, AskError, Link, LinkRequest, Peer};
use toolyard_proto::splice::elements;
use toolyard_proto::{CallError, Kind, Method, Raw, modern};

use super::{convert, legacy_tasks, request};
use crate::call::Call;
use crate::hub;
use crate::upstream::Lease;

/// How often an upstream may send the user to a page before the call is given up.
const MOST_VISITS: u32 = 3;
/// The error by which a 2025-11-25 server requires that the user visits a page first.
const VISIT_REQUIRED: i32 = -32042;

pub(super) async fn converse(call: Call, lease: &Arc<Lease>) -> Answer {
    let link = lease.link();
    if call.params.member("requestState").is_some() || call.params.member("inputResponses").is_some() {
        if call.method == Method::TASKS_UPDATE {
            return legacy_tasks::update(&call);
        }
        let message = "this `requestState` is unknown or has expired; make the call again without it and without \
                       `inputResponses`";
        return Err(CallError::invalid_params(message));
    }
    match call.method.as_str() {
        "tasks/get" => return legacy_tasks::get(&call, link).await,
        "tasks/cancel" => return legacy_tasks::cancel(&call, link).await,
        "tasks/update" => return legacy_tasks::update(&call),
        _ => {}
    }
    let params = convert::params_for_legacy(
        link.greeting().revision,
        &call.method,
        modern::strip_request(&call.params),
    );
    if legacy_tasks::is_required(&call, link.greeting()) {
        let answer = legacy_tasks::run(&call, lease, params).await;
        return finished(&call.method, link.as_ref(), answer);
    }
    let request = request(&call.origin, call.id.clone(), call.method.clone(), params);
    let mut answer = with_visits(link, &request, &call.peer).await;
    if hub::may_need_wrapping(&call.upstream, &call.method) {
        answer = hub::wrapped(answer);
    }
    finished(&call.method, link.as_ref(), answer)
}

async fn with_visits(link: &Arc<dyn Link>, request: &LinkRequest, peer: &Peer) -> Answer {
    for _ in 0..MOST_VISITS {
        match link.call(request.clone(), peer.clone()).await {
            Err(error) if sends_to_page(&error) => visit(&error, peer).await?,
            answer => return answer,
        }
    }
    Err(CallError::bad_answer("the upstream keeps sending the user to pages without continuing"))
}

fn finished(method: &Method, link: &dyn Link, answer: Answer) -> Answer {
    match answer {
        Ok(AnswerBody::Whole(result, _)) => {
            let server_info = link.greeting().server_info.as_ref();
            Ok(AnswerBody::ours(convert::result_from_legacy(method, &result, server_info)))
        }
        Err(error) => Err(convert::error_from_legacy(method, error)),
        answer => answer,
    }
}

/// Asks the user to visit every page that the error names; fails unless the user agrees to all.
async fn visit(error: &CallError, peer: &Peer) -> Result<(), CallError> {
    let pages = pages(error);
    if pages.is_empty() {
        return Err(cannot_visit(
            error,
            ", and the upstream does not name the page that the user must visit",
        ));
    }
    for page in pages {
        let ask =
            Ask { method: Method::ELICIT, params: Some(page.with("mode", &Raw::from_serialize(&"url"))) };
        let answer = match peer.ask(ask).await {
            Err(AskError::Unsupported(_)) => return Err(in_words(error)),
            answer => answer,
        };
        let accepted = answer.is_ok_and(|answer| {
            answer.member("action").is_some_and(|action| action.as_bytes() == b"\"accept\"")
        });
        if !accepted {
            return Err(cannot_visit(error, ", and the user did not agree to it"));
        }
    }
    Ok(())
}

/// Whether an error sends the user to a page, in the form of the one revision that has such an error.
pub(super) fn sends_to_page(error: &CallError) -> bool {
    error.code() == VISIT_REQUIRED
}

/// The same error for a client that cannot be asked to show a page: the text names the page, so the user can go there.
pub(super) fn in_words(error: &CallError) -> CallError {
    let urls: Vec<String> = pages(error).iter().filter_map(|page| page.member("url")?.as_string()).collect();
    if urls.is_empty() {
        return cannot_visit(error, "");
    }
    cannot_visit(error, &format!(": open {}, then make the call again", urls.join(" and ")))
}

fn cannot_visit(error: &CallError, why: &str) -> CallError {
    CallError::cannot_ask(format!("{error}{why}"))
}

fn pages(error: &CallError) -> Vec<Raw> {
    let Kind::Reported(raw) = &error.kind else { return Vec::new() };
    let pages = raw.at(&["data", "elicitations"]).unwrap_or_else(Raw::empty_object);
    elements(pages.as_bytes()).map(|range| pages.slice(range)).collect()
}
