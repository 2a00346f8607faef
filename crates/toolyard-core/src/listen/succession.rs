//! Moves the subscriptions of a replaced upstream to its successor, also if the successor takes time to
//! connect.

use std::sync::Arc;
use std::time::Duration;

use toolyard_proto::Kind;

use super::{Listener, Listeners, Watched, update_of};
use crate::Scope;
use crate::upstream::state::Phase;
use crate::upstream::{Subscribed, Upstream};

/// How often to check whether a client still listens.
const LOOK: Duration = Duration::from_secs(30);
/// The least time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Why subscribing has ended.
enum SubscriptionEnd {
    ForGood,
    MayComeBack,
}

impl Listeners {
    /// Moves all subscriptions at `old` to its successor.
    pub(crate) fn move_over(self: &Arc<Self>, old: &Arc<Upstream>, new: &Arc<Upstream>, scope: &Scope) {
        for listener in self.all() {
            let uris: Vec<String> = {
                let watched = listener.watched();
                let own = watched.iter().filter(|watched| Arc::ptr_eq(&watched.upstream, old));
                own.map(|watched| watched.own_uri.clone()).collect()
            };
            for own_uri in uris {
                let listeners = self.clone();
                let old = old.clone();
                let new = new.clone();
                let inner = scope.clone();
                let listener = listener.clone();
                scope.spawn(async move {
                    let subscribed = listeners.subscribe_once_there(&listener, new, &own_uri, &inner).await;
                    if matches!(subscribed, Err(SubscriptionEnd::MayComeBack)) {
                        return;
                    }
                    let is_old = |watched: &mut Watched| {
                        Arc::ptr_eq(&watched.upstream, &old) && watched.own_uri == own_uri
                    };
                    let gone: Vec<Watched> = listener.watched().extract_if(.., is_old).collect();
                    // A session that has connected to another instance in the meantime is no longer interested.
                    let is_wanted = !gone.is_empty();
                    drop(gone);
                    if let Some((upstream, subscription)) = subscribed.ok().filter(|_| is_wanted) {
                        listeners.watch_on(&listener, upstream, own_uri, subscription);
                    }
                });
            }
        }
    }

    /// Continues a subscription at the upstream that replaces the first. Updates of the resource in between were
    /// missed.
    fn watch_on(
        &self,
        listener: &Listener,
        upstream: Arc<Upstream>,
        own_uri: String,
        subscription: Subscribed,
    ) {
        let (id, update) = (upstream.id().clone(), update_of(&own_uri));
        listener.watched().push(Watched { upstream, own_uri, _subscription: subscription });
        if let Some(snapshot) = self.snapshot() {
            listener.announce_update(&snapshot, &id, &update);
        }
    }

    /// Subscribes at `upstream`, or at its successor, until no client is subscribed any longer.
    async fn subscribe_once_there(
        self: &Arc<Self>,
        listener: &Arc<Listener>,
        mut upstream: Arc<Upstream>,
        own_uri: &str,
        scope: &Scope,
    ) -> Result<(Arc<Upstream>, Subscribed), SubscriptionEnd> {
        loop {
            let error = match upstream.subscribe(own_uri.to_owned(), &listener.origin, self, scope).await {
                Ok(subscription) => return Ok((upstream, subscription)),
                Err(error) => error,
            };
            if !self.all().iter().any(|open| Arc::ptr_eq(open, listener)) {
                return Err(SubscriptionEnd::ForGood);
            }
            if upstream.life.is_retired() {
                // Without a successor it may still come back; then its former subscriptions are looked up.
                upstream = upstream.life.successor().ok_or(SubscriptionEnd::MayComeBack)?;
            } else if matches!(error.kind, Kind::Unavailable | Kind::Unreachable | Kind::Lost | Kind::Timeout)
            {
                let there = upstream.life.reaches(|phase| matches!(phase, Phase::Active | Phase::Ended));
                let _ = tokio::time::timeout(LOOK, there).await;
            } else {
                return Err(SubscriptionEnd::ForGood);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
