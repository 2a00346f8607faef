//! Log levels of sessions, sent to the upstreams that keep one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use toolyard_model::{Answer, AnswerBody, Link, LinkRequest, Origin, Peer, Request};
use toolyard_proto::modern::LogLevel;
use toolyard_proto::{CallError, Id, Method, Raw};

use crate::gateway::Shared;
use crate::hub::Hub;
use crate::upstream::Upstream;

const LEVEL_WAIT: Duration = Duration::from_secs(5);

/// A session's log level goes to every upstream it sees that keeps one; a shared upstream gets the lowest
/// level of all sessions.
pub(crate) async fn set_level(shared: Arc<Shared>, request: Request) -> Answer {
    let level = request.params.member("level").and_then(|level| LogLevel::parse(&level.as_string()?));
    let Some(level) = level else {
        return Err(CallError::invalid_params(
            "`level` must be one of debug, info, notice, warning, error, critical, alert, emergency",
        ));
    };
    // A session may choose before any upstream has connected, as one does that was there before a restart.
    shared.wait_for_first_list(&request.origin).await;
    let snapshot = shared.catalog.snapshot();
    let upstreams = snapshot
        .seen_by(&request.origin)
        .map(|view| view.upstreams().cloned().collect::<Vec<_>>())
        .unwrap_or_default();
    let sent = upstreams.iter().map(|upstream| send_level(upstream, &request.origin, &request.id, level));
    let _ = tokio::time::timeout(LEVEL_WAIT, join_all(sent)).await;
    Ok(AnswerBody::Whole(Raw::empty_object(), request.origin.revision))
}

/// A session of the hub comes to see an instance that it did not see when it chose its level. It may have disconnected
/// again before the level is sent.
pub(crate) fn catch_up(upstream: &Arc<Upstream>, origin: &Arc<Origin>, hub: Arc<Hub>) {
    let Some(level) = origin.log_level.get() else { return };
    let (target, origin) = (upstream.clone(), origin.clone());
    upstream.life.later(Box::pin(async move {
        if hub.target(&origin.client).as_ref() != Some(target.id()) {
            return;
        }
        let id = Id::string("yard-level");
        let _ = tokio::time::timeout(LEVEL_WAIT, send_level(&target, &origin, &id, level)).await;
    }));
}

async fn send_level(upstream: &Arc<Upstream>, origin: &Arc<Origin>, id: &Id, level: LogLevel) {
    let least = upstream.links.want_level(&origin.client, Some(level)).unwrap_or(level);
    let Some(link) = upstream.links.open_in(upstream.lane_of(origin)) else { return };
    let greeting = link.greeting();
    if !greeting.keeps_level() {
        return;
    }
    let level = if link.per_client() { level } else { least };
    let request = level_request(origin, id.clone(), level);
    let _ = link.call(request, Peer::none()).await;
}

/// A new link to a shared upstream has lost the levels that clients chose before. Where each client has
/// a session, the level comes with the first call in it.
pub(crate) fn send_again(upstream: &Arc<Upstream>, link: &Arc<dyn Link>, origin: &Arc<Origin>) {
    if link.per_client() || !link.greeting().keeps_level() {
        return;
    }
    if let Some(level) = upstream.links.least_level() {
        let sent = link.call(level_request(origin, Id::string("yard-level"), level), Peer::none());
        upstream.life.later(Box::pin(async move { drop(tokio::time::timeout(LEVEL_WAIT, sent).await) }));
    }
}

fn level_request(origin: &Arc<Origin>, id: Id, level: LogLevel) -> LinkRequest {
    LinkRequest::new(
        origin.clone(),
        id,
        Method::SET_LEVEL,
        Raw::empty_object().with("level", &Raw::from_serialize(&level.as_str())),
    )
}
