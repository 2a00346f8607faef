//! The last stop: a live link, the upstream's own form, and the answer back in the client's names.

use std::sync::Arc;

use toolyard_proto::uri::{map_result, to_shown};
use toolyard_proto::{CallError, Fault, Kind, Raw, Retry};
use toolyard_transport::{Answer, AnswerBody};

use super::Call;
use crate::upstream::Upstream;
use crate::{bridge, tasks};

pub(super) async fn route(mut call: Call) -> Answer {
    let (in_flight, lease) = loop {
        let in_flight = call.upstream.begin(call.params.len())?;
        match call.upstream.lease(&call.origin).await {
            Ok(lease) => break (in_flight, Arc::new(lease)),
            // The config was changed since the call came: who has the name now is whom it means.
            Err(error) => call.upstream = call.upstream.successor().ok_or(error)?,
        }
    };
    let edits = call.edits;
    let upstream = call.upstream.clone();
    let answer = bridge::exchange(call, &lease).await;
    lease.done();
    if matches!(&answer, Ok(_) | Err(CallError { kind: Kind::Reported(_), .. })) {
        upstream.heard();
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
                upstream.suspect();
            }
            let error = if edits.uris.is_some() { with_shown_uri(&upstream, error) } else { error };
            Err(name_upstream(own_hop(&upstream, error), upstream.name()))
        }
        answer => answer,
    }
}

fn edited(upstream: &Upstream, edits: crate::call::Edits, result: Raw) -> Raw {
    let mut result = result;
    if let Some(kind) = edits.uris
        && let Some(mapped) = map_result(kind, upstream.id(), result.as_bytes())
        && let Ok(mapped) = Raw::parse(mapped)
    {
        result = mapped;
    }
    if edits.tasks { tasks::shown(upstream.id(), &result) } else { result }
}

/// The resource that an upstream says it does not have, under the name that the client knows.
fn with_shown_uri(upstream: &crate::upstream::Upstream, error: CallError) -> CallError {
    let path = &["data", "uri"];
    match &error.kind {
        Kind::Reported(raw) if let Some(own) = raw.at(path).and_then(|uri| uri.as_string()) => {
            let shown = Raw::from_serialize(&to_shown(upstream.id(), &own));
            CallError { kind: Kind::Reported(raw.with_path(path, &shown)), ..error }
        }
        _ => error,
    }
}

/// Trouble about our own way of asking is ours to mend, and says nothing to the client.
fn own_hop(upstream: &Upstream, error: CallError) -> CallError {
    let what = match &error.kind {
        Kind::HeaderMismatch if error.origin == Fault::Upstream => "what travels in headers",
        Kind::UnsupportedVersion { .. } if error.origin == Fault::Upstream => "the protocol's version",
        _ => return error,
    };
    upstream.outdated();
    let id = upstream.id();
    let message = format!("upstream `{id}` has changed its mind about {what}; it is met anew, try again");
    CallError::turned_away(Retry::Always, message)
}

fn name_upstream(error: CallError, name: &std::sync::Arc<str>) -> CallError {
    if error.upstream.is_some() { error } else { error.at(name) }
}
