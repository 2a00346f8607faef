//! Converts requests and answers between a client and an upstream of different eras. No other module does this; within
//! one era and revision nothing is changed.

mod era;
mod legacy_upstream;
mod legacy_tasks;
mod modern_upstream;
mod modern_tasks;
mod legacy_task_proxy;
mod convert;
mod monotonic_progress;

use std::sync::Arc;

use toolyard_model::{Answer, AnswerBody, BoxFuture, LinkRequest, Origin};
use toolyard_proto::{Era, Id, Method, Raw};

pub(crate) use era::{
    asks, asks_in_calls, crosses, greeting_for, has_inbox, health_check, knows_health_check, must_listen,
    our_versions, own_origin, own_params, reports_refusals, subscribes_by_listening, takes_notifications,
    tasks_in_view,
};
pub(crate) use legacy_tasks::TrackedStatus;
pub(crate) use monotonic_progress::monotonic;

use crate::call::Call;
use crate::hub;
use crate::upstream::Lease;
use crate::upstream::task_owners::names_task;

/// Sends a call to an upstream and returns its answer in a form that the client's edge understands. Each branch is boxed
/// separately, so that the caller's future does not need room for the largest one.
pub(crate) fn exchange(call: Call, lease: &Arc<Lease>) -> BoxFuture<Answer> {
    let revision = lease.link().greeting().revision;
    let client = call.origin.revision.era();
    let upstream = revision.era();
    if client == Era::Modern && upstream == Era::Modern {
        let relay = call.relay && call.edits.none() && !call.needs_whole;
        let (request, peer) = outbound(call, relay);
        return lease.link().call(request, peer);
    }
    let lease = lease.clone();
    match (client, upstream) {
        (Era::Legacy, Era::Modern) => Box::pin(async move { modern_upstream::converse(call, &lease).await }),
        (Era::Modern, _) => Box::pin(async move { legacy_upstream::converse(call, &lease).await }),
        (Era::Legacy, Era::Legacy) => {
            Box::pin(async move { among_legacy(call, &lease).await.map_err(|error| error.in_form(revision)) })
        }
    }
}

/// The exchange between a legacy client and a legacy upstream, whose revisions may differ.
async fn among_legacy(call: Call, lease: &Arc<Lease>) -> Answer {
    // If each client has its own session or process, the upstream itself separates their tasks.
    if lease.is_apart() {
        return between_legacy(call, lease).await;
    }
    let upstream = call.upstream.clone();
    let origin = call.origin.clone();
    let method = call.method.clone();
    if names_task(&method) {
        upstream.links.task_owners.check(&call.params, &origin)?;
    }
    let makes_task = call.params.member("task").is_some();
    let _making = makes_task.then(|| upstream.links.task_owners.making());
    let answer = between_legacy(call, lease).await?;
    match &answer {
        AnswerBody::Whole(result, revision) if method == Method::TASKS_LIST => {
            Ok(AnswerBody::Whole(upstream.links.task_owners.only_own(result, &origin), *revision))
        }
        AnswerBody::Whole(result, _) if makes_task => {
            let id = result.at(&["task", "taskId"]).and_then(|id| id.as_string());
            if let Some(id) = id {
                upstream.links.task_owners.made(&id, &origin);
            }
            Ok(answer)
        }
        _ => Ok(answer),
    }
}

async fn between_legacy(mut call: Call, lease: &Arc<Lease>) -> Answer {
    let link = lease.link();
    let client = call.origin.revision;
    let revision = link.greeting().revision;
    if revision < client {
        call.params = convert::params_for_legacy(revision, &call.method, call.params.into_raw()).into();
    } else if client < revision && legacy_tasks::is_required(&call, link.greeting()) {
        let params = call.params.as_raw().clone();
        return legacy_tasks::run(&call, lease, params).await;
    }
    let shows_pages = call.origin.capabilities.at(&["elicitation", "url"]).is_some();
    let wraps = hub::may_need_wrapping(&call.upstream, &call.method);
    let (request, peer) = outbound(call, false);
    match link.call(request, peer).await {
        Err(error) if !shows_pages && legacy_upstream::sends_to_page(&error) => {
            Err(legacy_upstream::in_words(&error))
        }
        answer if wraps => hub::wrapped(answer),
        answer => answer,
    }
}

/// A request of a client, or one that the bridge makes on its behalf.
fn request(origin: &Arc<Origin>, id: Id, method: Method, params: Raw) -> LinkRequest {
    LinkRequest::new(origin.clone(), id, method, params)
}

fn outbound(call: Call, relay: bool) -> (LinkRequest, toolyard_model::Peer) {
    let Call { origin, id, method, params, headers, peer, entry, trace, parent, .. } = call;
    let name = entry.and_then(|entry| entry.own_name_header.clone());
    let request = LinkRequest::new(origin, id, method, params).numbered(trace.call, parent);
    (request.with_headers(headers).with_name(name).with_relay(relay), peer)
}
