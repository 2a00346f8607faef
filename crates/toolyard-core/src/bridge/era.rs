//! The consequences of the era or revision of a client or an upstream, as questions that the rest of the gateway can
//! ask.

use std::sync::Arc;

use toolyard_model::{Greeting, Origin};
use toolyard_proto::{Era, Method, Raw, Revision};

use super::{convert, legacy_task_proxy};

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
pub(crate) fn crosses(origin: &Origin, greeting: &Greeting) -> bool {
    origin.revision.era() != greeting.revision.era()
}

/// Whether `origin` keeps a session in which out-of-call messages can arrive.
pub(crate) fn has_inbox(origin: &Origin) -> bool {
    !origin.revision.is_modern()
}

/// How an upstream introduced itself, as the `server/discover` answer of a view that shows it alone.
pub(crate) fn greeting_for(origin: &Origin, greeting: &Greeting) -> (Raw, Revision) {
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

/// The declaration about tasks of a view of many upstreams to a client of 2025-11-25: it can ask for
/// those of every upstream that has tasks in either form, and lists none.
pub(crate) fn tasks_in_view<'a>(
    origin: &Origin,
    mut upstreams: impl Iterator<Item = &'a Greeting>,
) -> Option<Raw> {
    let has_tasks = |greeting: &Greeting| {
        legacy_task_proxy::are_offered(origin, &greeting.capabilities)
            || greeting.revision == Revision::V2025_11_25
                && greeting.capabilities.at(&["tasks", "requests", "tools", "call"]).is_some()
    };
    let are_known = origin.revision == Revision::V2025_11_25;
    (are_known && upstreams.any(has_tasks)).then(|| convert::legacy_tasks_capability().without(&["list"]))
}

/// The cheapest question that shows whether an upstream of this revision is alive.
pub(crate) fn health_check(revision: Revision) -> Method {
    if revision.is_modern() { Method::DISCOVER } else { Method::PING }
}

/// Whether an upstream is known to answer that question: it answered it when the link was opened.
pub(crate) fn knows_health_check(greeting: &Greeting) -> bool {
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
