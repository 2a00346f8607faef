//! The settings of clients in a session, kept so that its replacement can be set up in the same way: the log level,
//! and which client subscribes to which resource. Unused subscriptions are removed upstream.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use toolyard_model::{ClientKey, LinkRequest, Origin, Peer};
use toolyard_proto::{Id, Method, Notification, Raw};

use super::session::{ERRAND, UpstreamSession};

#[derive(Default)]
pub(super) struct Memory {
    level: Option<Raw>,
    /// The clients that subscribe to each resource. Bounded, because the number of listens is.
    subscribed: BTreeMap<String, HashSet<ClientKey>>,
    /// How many sessions in a row were lost soon after they were opened.
    soon_lost: u32,
}

/// How long after a loss another session is opened; the pause grows if sessions do not last.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A session that has lasted this long resets the pause.
const LASTING: Duration = Duration::from_mins(1);

impl Memory {
    /// Records what a request that succeeded has set up in the session.
    pub(super) fn note(&mut self, request: &LinkRequest) {
        if request.method == Method::SET_LEVEL {
            self.level = Some(request.params.without(&["_meta"]));
        } else if request.method == Method::RESOURCES_SUBSCRIBE
            && let Some(uri) = request.params.member("uri").and_then(|uri| uri.as_string())
        {
            self.subscribed.entry(uri).or_default().insert(request.origin.client.clone());
        }
    }

    /// A client unsubscribes; returns whether it was the last one.
    pub(super) fn release(&mut self, uri: &str, client: &ClientKey) -> bool {
        let Some(clients) = self.subscribed.get_mut(uri) else { return false };
        let is_last = clients.remove(client) && clients.is_empty();
        if is_last {
            self.subscribed.remove(uri);
        }
        is_last
    }

    /// Whether the session has no subscriptions, so that only calls need it.
    pub(super) fn is_empty(&self) -> bool {
        self.level.is_none() && self.subscribed.is_empty()
    }

    /// The session was lost after `lasted`; returns how long to wait before another is opened without a call.
    pub(super) fn lost_after(&mut self, lasted: Duration) -> Duration {
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.soon_lost)).min(LONGEST_PAUSE);
        self.soon_lost = if lasted < LASTING { self.soon_lost.saturating_add(1) } else { 0 };
        if self.soon_lost == 0 { FIRST_PAUSE } else { pause }
    }

    pub(super) fn has_subscribers(&self) -> bool {
        !self.subscribed.is_empty()
    }

    fn requests(&self, origin: &Arc<Origin>) -> Vec<LinkRequest> {
        let level = self.level.iter().map(|params| (Method::SET_LEVEL, params.clone()));
        let subscribed = self.subscribed.keys();
        let subscribed = subscribed.map(|uri| (Method::RESOURCES_SUBSCRIBE, json!({ "uri": uri }).into()));
        level.chain(subscribed).map(|(method, params)| own(origin, method, params)).collect()
    }
}

impl UpstreamSession {
    /// Sets up the state of a lost session again, once, even if several calls wait. What the upstream refuses is left
    /// out.
    pub(super) fn inherit(self: &Arc<Self>, memory: Memory, origin: &Arc<Origin>) {
        let requests = memory.requests(origin);
        self.lock().memory = memory;
        self.is_set_up.send_replace(false);
        let session = self.clone();
        self.scope.spawn(async move {
            for request in requests {
                session.lock().sent_level.before(&request, &session.greeting);
                let asked = timeout(ERRAND, session.exchange(&request, &Peer::none())).await;
                if !matches!(asked, Ok(Ok(_))) {
                    tracing::debug!(upstream = %session.upstream.name, "a lost session was restored only in part");
                } else if request.method == Method::RESOURCES_SUBSCRIBE {
                    // Changes in the meantime were not reported.
                    let update = Notification::new(Method::RESOURCE_UPDATED, request.params.into_raw());
                    session.events.notify(session.owner.client(), update);
                }
            }
            session.is_set_up.send_replace(true);
        });
    }

    /// Waits until everything is set up as before, or until that takes too long.
    pub(super) async fn set_up(&self) {
        if *self.is_set_up.borrow() {
            return;
        }
        let mut is_set_up = self.is_set_up.subscribe();
        let _ = timeout(ERRAND, is_set_up.wait_for(|is_set_up| *is_set_up)).await;
    }

    /// Unsubscribes upstream, because no client subscribes any more.
    pub(super) async fn unsubscribe(self: &Arc<Self>, origin: &Arc<Origin>, uri: &str) {
        let request = own(origin, Method::RESOURCES_UNSUBSCRIBE, json!({ "uri": uri }).into());
        if !matches!(timeout(ERRAND, self.exchange(&request, &Peer::none())).await, Ok(Ok(_))) {
            tracing::debug!(upstream = %self.upstream.name, uri, "a subscription could not be cancelled");
        }
    }
}

fn own(origin: &Arc<Origin>, method: Method, params: Raw) -> LinkRequest {
    let id = Id::string("yard-session");
    LinkRequest::new(origin.clone(), id, method, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_do_not_last_are_opened_less_and_less_often() {
        let mut memory = Memory::default();
        let mut pauses = |lasted: [u64; 7]| {
            lasted.map(|seconds| memory.lost_after(Duration::from_secs(seconds)).as_secs())
        };
        assert_eq!(pauses([3600, 0, 5, 5, 5, 5, 5]), [1, 1, 2, 4, 8, 16, 30]);
        assert_eq!(pauses([5, 3600, 5, 5, 3600, 3600, 5]), [30, 1, 1, 2, 1, 1, 1]);
    }
}
