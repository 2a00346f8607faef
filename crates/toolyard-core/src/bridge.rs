//! Between a client and an upstream of different eras: requests and answers are converted here, and only
//! here. Between equals nothing is touched.

mod classic_upstream;
mod convert;
mod modern_upstream;

use std::sync::Arc;

use toolyard_proto::{Era, Raw, Revision};
use toolyard_transport::{Answer, Link, LinkRequest, Origin};

use crate::call::Call;

/// Carries a call to an upstream and its answer back in a form the client's edge understands.
pub(crate) async fn exchange(call: Call, link: &Arc<dyn Link>) -> Answer {
    let revision = link.greeting().revision;
    match (call.origin.revision.era(), revision.era()) {
        (Era::Modern, Era::Modern) => {
            let relay = call.relay && call.edits.none();
            let (request, peer) = outbound(call, relay);
            link.call(request, peer).await
        }
        (Era::Legacy, Era::Legacy) => {
            let (request, peer) = outbound(call, false);
            link.call(request, peer).await
        }
        (Era::Modern, Era::Legacy) => classic_upstream::converse(call, link).await,
        (Era::Legacy, Era::Modern) => modern_upstream::converse(call, link).await,
    }
}

fn outbound(call: Call, relay: bool) -> (LinkRequest, toolyard_transport::Peer) {
    let Call { origin, id, method, params, headers, peer, .. } = call;
    (LinkRequest { origin, id, method, params, headers, relay }, peer)
}

/// The parameters of a request of our own, in the form of an upstream's revision.
pub(crate) fn own_params(revision: Revision, origin: &Origin, params: Raw) -> Raw {
    if revision.is_modern() { convert::stamped(origin, &params) } else { params }
}

/// Whether and how an upstream announces changes: it is asked to (listen), or it does so by itself.
pub(crate) fn must_listen(revision: Revision) -> bool {
    revision.is_modern()
}

/// Asks a subscription of one resource, in the upstream's way.
pub(crate) fn subscribes_by_listening(revision: Revision) -> bool {
    revision.is_modern()
}

/// Whether `origin` keeps a session in which out-of-call messages can arrive.
pub(crate) fn has_inbox(origin: &Origin) -> bool {
    !origin.is_modern()
}

/// What an upstream said of itself, as the `server/discover` answer of a view that shows it alone.
pub(crate) fn greeting_for(origin: &Origin, greeting: &toolyard_transport::Greeting) -> (Raw, Revision) {
    match (origin.revision.era(), greeting.revision.era()) {
        (Era::Legacy, Era::Legacy) => (greeting.whole.clone(), greeting.revision),
        (_, Era::Modern) => (convert::with_our_versions(&greeting.whole), Revision::NEWEST),
        (Era::Modern, Era::Legacy) => (convert::discover_from_older(greeting), Revision::NEWEST),
    }
}

/// The cheapest question that shows whether an upstream of this revision is alive.
pub(crate) fn health_check(revision: Revision) -> toolyard_proto::Method {
    if revision.is_modern() { toolyard_proto::Method::DISCOVER } else { toolyard_proto::Method::PING }
}

/// The gateway's own origin towards an upstream of `revision`.
pub(crate) fn own_origin(name: &str, version: &str) -> Arc<Origin> {
    Origin::gateway(Raw::empty_object(), serde_json::json!({ "name": name, "version": version }).into())
}

/// The versions that this gateway speaks, newest first.
pub(crate) fn our_versions() -> Raw {
    convert::our_versions()
}
