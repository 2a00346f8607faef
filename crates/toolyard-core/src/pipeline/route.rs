//! The last stop: a live link, the upstream's own form, and the answer back in the client's names.

use std::sync::Arc;

use toolyard_model::{Answer, AnswerBody, Origin, Peer};
use toolyard_proto::uri::{map_result, to_shown};
use toolyard_proto::{CallError, Fault, Id, Kind, Method, Params, Raw, Retry};

use super::{Call, Edits};
use crate::catalog::{Entry, ListKind, param_headers};
use crate::upstream::Upstream;
use crate::{bridge, tasks};

pub(super) async fn route(mut call: Call) -> Answer {
    let (in_flight, lease) = loop {
        let in_flight = call.upstream.begin(call.params.len() + call.id.as_bytes().len())?;
        match call.upstream.lease(&call.origin).await {
            Ok(lease) => break (in_flight, Arc::new(lease)),
            // The config was changed since the call came: who has the name now is whom it means.
            Err(error) => call.upstream = call.upstream.life.successor().ok_or(error)?,
        }
    };
    let edits = call.edits;
    let upstream = call.upstream.clone();
    let link = lease.link();
    let may_refuse = !link.is_in_process() && bridge::tells_what_it_refused(link.greeting().revision);
    let again = if may_refuse { Again::of(&call) } else { None };
    let mut answer = bridge::exchange(call, &lease).await;
    lease.done();
    // Whoever is asked again needs a place of its own.
    drop(lease);
    if let Err(error) = &answer
        && about_own_hop(error).is_some()
        && let Some(again) = again
        && let Some(retried) = Box::pin(again.run(&upstream)).await
    {
        answer = retried;
    }
    if matches!(&answer, Ok(_) | Err(CallError { kind: Kind::Reported(_), .. })) {
        upstream.life.heard();
    }
    match answer {
        Ok(AnswerBody::Whole(result, revision)) if !edits.none() => {
            Ok(AnswerBody::Whole(edited(&upstream, edits, result), revision))
        }
        Ok(AnswerBody::Stream(mut relay)) => {
            relay.hold(Box::new(in_flight));
            Ok(AnswerBody::Stream(relay))
        }
        Err(error) => {
            if matches!(error.kind, Kind::Unavailable | Kind::Unreachable | Kind::Lost) {
                upstream.life.suspect();
            }
            let error = if edits.uris.is_some() { with_shown_uri(&upstream, error) } else { error };
            Err(name_upstream(own_hop(&upstream, error), upstream.name()))
        }
        answer => answer,
    }
}

/// A call that can be made once more, where the upstream did not take it because of our way of asking.
struct Again {
    origin: Arc<Origin>,
    entry: Arc<Entry>,
    id: Id,
    method: Method,
    params: Params,
    relay: bool,
    peer: Peer,
    edits: Edits,
}

impl Again {
    /// Only what is known by its definition: that tells how to ask.
    fn of(call: &Call) -> Option<Box<Self>> {
        let entry = call.entry.clone()?;
        let (origin, id, method) = (call.origin.clone(), call.id.clone(), call.method.clone());
        let (params, peer) = (call.params.clone(), call.peer.clone());
        Some(Box::new(Self { origin, entry, id, method, params, relay: call.relay, peer, edits: call.edits }))
    }

    /// Once the upstream has told anew what it offers. One that speaks another version than it did answers nothing
    /// on the link that there is, so it was met anew by then. It has not carried the call out.
    async fn run(self: Box<Self>, upstream: &Arc<Upstream>) -> Option<Answer> {
        if !upstream.renewed().await {
            return None;
        }
        let Self { origin, entry, id, method, params, relay, peer, edits } = *self;
        let headers = if method == Method::TOOLS_CALL {
            let definitions = upstream.definitions()?;
            let is_it = |tool: &&Raw| tool.member("name").as_ref() == Some(&entry.own_name_raw);
            let tool = definitions.list(ListKind::Tools).iter().find(is_it)?;
            param_headers(tool, &params)
        } else {
            None
        };
        let lease = Arc::new(upstream.lease(&origin).await.ok()?);
        let (upstream, entry) = (upstream.clone(), Some(entry));
        let call = Call { origin, upstream, entry, id, method, params, headers, relay, peer, edits };
        let answer = bridge::exchange(call, &lease).await;
        lease.done();
        Some(answer)
    }
}

fn edited(upstream: &Upstream, edits: crate::call::Edits, mut result: Raw) -> Raw {
    let with_shown_uris = |result: &Raw| {
        let mapped = map_result(edits.uris?, upstream.id(), result.as_bytes())?;
        Raw::parse(mapped).ok()
    };
    if let Some(mapped) = with_shown_uris(&result) {
        result = mapped;
    }
    // What became of a task stands within what is said of it.
    if edits.tasks
        && let Some(mapped) = result.member("result").as_ref().and_then(with_shown_uris)
    {
        result = result.with("result", &mapped);
    }
    if edits.tasks { tasks::shown(upstream.id(), &result) } else { result }
}

/// The resource that an upstream says it does not have, under the name that the client knows.
fn with_shown_uri(upstream: &crate::upstream::Upstream, error: CallError) -> CallError {
    let path = &["data", "uri"];
    match &error.kind {
        Kind::Reported(raw) if let Some(own) = raw.at(path).and_then(|uri| uri.as_string()) => {
            let shown = Raw::from_serialize(&to_shown(upstream.id(), &own));
            let kind = Kind::Reported(raw.with_path(path, &shown));
            error.with_kind(kind)
        }
        _ => error,
    }
}

/// What an upstream did not like about our own way of asking.
fn about_own_hop(error: &CallError) -> Option<&'static str> {
    match &error.kind {
        Kind::HeaderMismatch if error.origin == Fault::Upstream => Some("what travels in headers"),
        Kind::UnsupportedVersion { .. } if error.origin == Fault::Upstream => Some("the protocol's version"),
        _ => None,
    }
}

/// Trouble about our own way of asking is ours to mend, and says nothing to the client.
fn own_hop(upstream: &Upstream, error: CallError) -> CallError {
    let Some(what) = about_own_hop(&error) else { return error };
    upstream.life.outdated();
    let id = upstream.id();
    let message = format!("upstream `{id}` has changed its mind about {what}; it is met anew, try again");
    CallError::turned_away(Retry::Always, message)
}

fn name_upstream(error: CallError, name: &std::sync::Arc<str>) -> CallError {
    if error.upstream.is_some() { error } else { error.at(name) }
}
