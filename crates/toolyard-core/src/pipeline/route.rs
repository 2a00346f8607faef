//! The last stop: a live link, the upstream's own form, and the answer back in the client's names.

use std::sync::Arc;

use toolyard_proto::uri::map_result;
use toolyard_proto::{CallError, Kind, Raw};
use toolyard_transport::{Answer, AnswerBody};

use super::Call;
use crate::{bridge, tasks};

pub(super) async fn route(call: Call) -> Answer {
    let lease = Arc::new(call.upstream.lease(&call.origin).await?);
    let edits = call.edits;
    let upstream = call.upstream.clone();
    let answer = bridge::exchange(call, &lease).await;
    lease.done();
    match answer {
        Ok(AnswerBody::Whole(result, revision)) if !edits.none() => {
            Ok(AnswerBody::Whole(edited(&upstream, edits, result), revision))
        }
        Err(error) => {
            if matches!(error.kind, Kind::Unavailable | Kind::Lost) {
                upstream.suspect();
            }
            Err(name_upstream(error, upstream.name()))
        }
        answer => answer,
    }
}

fn edited(upstream: &crate::upstream::Upstream, edits: crate::call::Edits, result: Raw) -> Raw {
    let mut result = result;
    if let Some(kind) = edits.uris
        && let Some(mapped) = map_result(kind, upstream.id(), result.as_bytes())
        && let Ok(mapped) = Raw::parse(mapped)
    {
        result = mapped;
    }
    if edits.tasks { tasks::shown(upstream.id(), &result) } else { result }
}

fn name_upstream(error: CallError, name: &std::sync::Arc<str>) -> CallError {
    if error.upstream.is_some() { error } else { error.at(name) }
}
