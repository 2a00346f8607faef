//! What a client has set up in its session, so that a session opened in place of a lost one is like it.

use std::sync::Arc;

use toolyard_proto::{Id, Method, Raw};

use super::session::Session;
use crate::{LinkRequest, Origin, Peer};

/// How many subscriptions of one session are remembered.
const MAX_SUBSCRIPTIONS: usize = 1000;

#[derive(Clone, Default)]
pub(super) struct Memory {
    level: Option<Raw>,
    subscribed: Vec<Raw>,
}

impl Memory {
    /// Notes what a request that succeeded has left in the session.
    pub(super) fn note(&mut self, request: &LinkRequest) {
        if request.method == Method::SET_LEVEL {
            self.level = Some(request.params.without(&["_meta"]));
        } else if request.method == Method::RESOURCES_SUBSCRIBE {
            let params = request.params.without(&["_meta"]);
            if !self.subscribed.contains(&params) && self.subscribed.len() < MAX_SUBSCRIPTIONS {
                self.subscribed.push(params);
            }
        } else if request.method == Method::RESOURCES_UNSUBSCRIBE {
            let params = request.params.without(&["_meta"]);
            self.subscribed.retain(|subscribed| *subscribed != params);
        }
    }

    /// Whether nobody who makes no calls would miss the session.
    pub(super) fn is_empty(&self) -> bool {
        self.level.is_none() && self.subscribed.is_empty()
    }
}

impl Session {
    /// Sets up what a lost session had. What the upstream now refuses is left out.
    pub(super) async fn recall(self: &Arc<Self>, lost: &Session, origin: &Arc<Origin>) {
        let Memory { level, subscribed } = lost.lock().memory.clone();
        let level = level.into_iter().map(|params| (Method::SET_LEVEL, params));
        let subscribed = subscribed.into_iter().map(|params| (Method::RESOURCES_SUBSCRIBE, params));
        for (method, params) in level.chain(subscribed) {
            let (origin, id) = (origin.clone(), Id::string("yard-recall"));
            let request = LinkRequest { origin, id, method, params, headers: None, name: None, relay: false };
            if self.call(&request, &Peer::nobody()).await.is_err() {
                tracing::debug!(upstream = %self.endpoint.name, "a lost session was not set up again in full");
            }
        }
    }
}
