//! Between a client and an upstream of different eras: requests and answers are converted here, and only
//! here. Between equals nothing is touched.

mod legacy_upstream;
mod legacy_tasks;
mod modern_upstream;
mod modern_tasks;
mod legacy_task_proxy;
mod convert;
mod monotonic_progress;

use std::sync::Arc;

use toolyard_model::{Answer, AnswerBody, BoxFuture, LinkRequest, Origin};
use toolyard_proto::{Era, Id, Method, Raw, Revision};

pub(crate) use legacy_tasks::TrackedStatus;
pub(crate) use monotonic_progress::monotonic;

use crate::call::Call;
use crate::hub;
use crate::upstream::Lease;
use crate::upstream::task_owners::names_task;

/// Carries a call to an upstream and its answer back in a form the client's edge understands. Boxed by branch, so that
/// the caller's future need not have room for the largest of them.
pub(crate) fn exchange(call: Call, lease: &Arc<Lease>) -> BoxFuture<Answer> {
    let revision = lease.link().greeting().revision;
    let (client, upstream) = (call.origin.revision.era(), revision.era());
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

/// Clients and upstreams of the same era, but not always of the same revision.
async fn among_legacy(call: Call, lease: &Arc<Lease>) -> Answer {
    // Where each client has a session or a process there, the upstream itself keeps them apart.
    if lease.is_apart() {
        return between_legacy(call, lease).await;
    }
    let (upstream, origin, method) = (call.upstream.clone(), call.origin.clone(), call.method.clone());
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
    let (client, revision) = (call.origin.revision, link.greeting().revision);
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

/// The parameters of a request of our own, in the form of an upstream's revision.
pub(crate) fn own_params(revision: Revision, origin: &Origin, params: Raw) -> Raw {
    if revision.is_modern() { convert::stamped(origin, &params) } else { params }
}

/// Whether an upstream announces changes only on request (by `subscriptions/listen`), or by itself.
pub(crate) fn must_listen(revision: Revision) -> bool {
    revision.is_modern()
}

/// Whether an upstream takes notifications of clients; a modern one knows none but a cancel.
pub(crate) fn takes_notifications(revision: Revision) -> bool {
    !revision.is_modern()
}

/// Whether an upstream reports by codes of the protocol that it refused a request because of the way it was sent. From
/// a legacy upstream the same numbers may mean anything, also after the work was done.
pub(crate) fn reports_refusals(revision: Revision) -> bool {
    revision.is_modern()
}

/// Whether a resource is subscribed to by `subscriptions/listen`.
pub(crate) fn subscribes_by_listening(revision: Revision) -> bool {
    revision.is_modern()
}

/// Whether an upstream can send requests to its client in the middle of calls.
pub(crate) fn asks_in_calls(revision: Revision) -> bool {
    !revision.is_modern()
}

/// Whether `origin` and an upstream speak different eras, so that calls between them are converted.
pub(crate) fn crosses(origin: &Origin, greeting: &toolyard_model::Greeting) -> bool {
    origin.revision.era() != greeting.revision.era()
}

/// Whether `origin` keeps a session in which out-of-call messages can arrive.
pub(crate) fn has_inbox(origin: &Origin) -> bool {
    !origin.revision.is_modern()
}

/// How an upstream introduced itself, as the `server/discover` answer of a view that shows it alone.
pub(crate) fn greeting_for(origin: &Origin, greeting: &toolyard_model::Greeting) -> (Raw, Revision) {
    match (origin.revision.era(), greeting.revision.era()) {
        (Era::Legacy, Era::Legacy) => (greeting.whole.clone(), greeting.revision),
        (_, Era::Modern) => {
            let whole = convert::with_our_versions(&greeting.whole);
            if !legacy_task_proxy::are_offered(origin, &greeting.capabilities) {
                return (whole, Revision::NEWEST);
            }
            let whole = whole.with_path(&["capabilities", "tasks"], &convert::legacy_tasks_capability());
            (whole, Revision::NEWEST)
        }
        (Era::Modern, Era::Legacy) => (convert::discover_from_legacy(greeting), Revision::NEWEST),
    }
}

/// Whether a result asks the client, which then sends its request again.
pub(crate) fn asks(result: &Raw) -> bool {
    result.member("resultType").is_some_and(|kind| kind.as_bytes() == b"\"input_required\"")
}

/// What a view of many upstreams declares about tasks to a client of 2025-11-25: it can ask for
/// those of every upstream that has tasks in either form, and lists none.
pub(crate) fn tasks_in_view<'a>(
    origin: &Origin,
    mut upstreams: impl Iterator<Item = &'a toolyard_model::Greeting>,
) -> Option<Raw> {
    let has_tasks = |greeting: &toolyard_model::Greeting| {
        legacy_task_proxy::are_offered(origin, &greeting.capabilities)
            || greeting.revision == Revision::V2025_11_25
                && greeting.capabilities.at(&["tasks", "requests", "tools", "call"]).is_some()
    };
    let are_known = origin.revision == Revision::V2025_11_25;
    (are_known && upstreams.any(has_tasks)).then(|| convert::legacy_tasks_capability().without(&["list"]))
}

/// The cheapest question that shows whether an upstream of this revision is alive.
pub(crate) fn health_check(revision: Revision) -> toolyard_proto::Method {
    if revision.is_modern() { toolyard_proto::Method::DISCOVER } else { toolyard_proto::Method::PING }
}

/// Whether an upstream is known to answer that question: it answered it when the link was opened.
pub(crate) fn knows_health_check(greeting: &toolyard_model::Greeting) -> bool {
    greeting.revision.is_modern()
}

/// The gateway's own origin towards an upstream of `revision`.
pub(crate) fn own_origin(name: &str, version: &str) -> Arc<Origin> {
    Origin::gateway(Raw::empty_object(), serde_json::json!({ "name": name, "version": version }).into())
}

/// The versions that this gateway speaks, newest first.
pub(crate) fn our_versions() -> Raw {
    convert::our_versions()
}
