//! Subscriptions to resources: one subscription upstream however many clients listen, kept across
//! reconnects, ended with the last listener.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot, watch};
use toolyard_model::{Ask, AskError, Back, BoxFuture, ClientKey, Link, Origin, Peer, Scope};
use toolyard_proto::{CallError, Method, Notification, Raw};

use super::fetch::own_request;
use super::{Lane, Lease, Upstream};
use crate::bridge;
use crate::listen::Listeners;

/// How long after the end of its stream a subscription is made again.
const HOLD_AGAIN: Duration = Duration::from_secs(2);
/// How long an answer that no client waits for any more is awaited, to take back the subscription that it confirms.
const LATE: Duration = Duration::from_mins(1);

/// The resource of a subscription, and the client that it is for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SubscriptionKey {
    /// `None` if all clients share the subscription; a client if the upstream keeps a session for each.
    client: Option<ClientKey>,
    lane: Lane,
    uri: String,
}

/// The URIs that clients watch, each with the request that asked for it.
type ByClient = HashMap<ClientKey, Vec<(String, Arc<Origin>)>>;

#[derive(Default)]
pub(super) struct Subscriptions {
    shared: Mutex<HashMap<SubscriptionKey, SharedSubscription>>,
    /// The resources that each client watches over a link that it shares with others. The subscription is made on a
    /// link of its own, too.
    by_client: Mutex<ByClient>,
}

struct SharedSubscription {
    count: usize,
    scope: Scope,
    outcome: watch::Receiver<Option<Result<(), CallError>>>,
}

impl Subscriptions {
    fn shared(&self) -> MutexGuard<'_, HashMap<SubscriptionKey, SharedSubscription>> {
        self.shared.lock()
    }

    fn by_client(&self) -> MutexGuard<'_, ByClient> {
        self.by_client.lock()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shared().is_empty()
    }

    /// The resources that this client watches over a shared link.
    fn of(&self, client: &ClientKey) -> Vec<(String, Arc<Origin>)> {
        self.by_client().get(client).cloned().unwrap_or_default()
    }

    /// Whether the client is no longer subscribed to this resource.
    fn forget(&self, client: &ClientKey, uri: &str) -> bool {
        let mut all = self.by_client();
        let Some(uris) = all.get_mut(client) else { return false };
        if let Some(at) = uris.iter().position(|(known, _)| known == uri) {
            uris.swap_remove(at);
        }
        let is_last = !uris.iter().any(|(known, _)| known == uri);
        if uris.is_empty() {
            all.remove(client);
        }
        is_last
    }
}

/// Keeps a subscription alive; dropping the last one ends it.
pub(crate) struct Subscribed {
    upstream: Arc<Upstream>,
    key: SubscriptionKey,
    /// The client, where it shares the link.
    follower: Option<Arc<Origin>>,
}

impl Subscribed {
    /// Ends the subscription on a link of the client's own.
    fn leave_own_link(&self) {
        let Some(origin) = &self.follower else { return };
        let links = &self.upstream.links;
        if links.subscriptions.forget(&origin.client, &self.key.uri)
            && let Some(link) = links.pool.link_of(&origin.client)
        {
            let asked = ask_own(link, origin.clone(), Method::RESOURCES_UNSUBSCRIBE, self.key.uri.clone());
            self.upstream.life.later(Box::pin(within(self.upstream.pace().connect, asked)));
        }
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.leave_own_link();
        let mut all = self.upstream.links.subscriptions.shared();
        let Some(shared) = all.get_mut(&self.key) else { return };
        shared.count -= 1;
        if shared.count == 0 {
            shared.scope.cancel();
            all.remove(&self.key);
        }
    }
}

impl Upstream {
    /// Subscribes to `uri` on behalf of `origin`, or joins a subscription that is there.
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        uri: String,
        origin: &Arc<Origin>,
        listeners: &Arc<Listeners>,
        scope: &Scope,
    ) -> Result<Subscribed, CallError> {
        let (lane, lease) = self.shared_lease(origin, None).await?;
        let link = lease.link();
        let apart = link.per_client() || self.keeps_apart(link.as_ref(), &origin.client);
        let key = SubscriptionKey { client: apart.then(|| origin.client.clone()), lane, uri };
        let (mut guard, mut outcome) = self.join(key, origin, listeners, scope);
        if !apart && !bridge::subscribes_by_listening(link.greeting().revision) {
            self.follow(&mut guard, origin).await;
        }
        let decided = tokio::time::timeout(self.pace().connect, outcome.wait_for(Option::is_some)).await;
        match decided.map(|decided| decided.map(|outcome| outcome.clone())) {
            Ok(Ok(Some(Ok(())))) => Ok(guard),
            Ok(Ok(Some(Err(error)))) => Err(error),
            Err(_) => {
                let message =
                    format!("upstream `{}` did not answer the subscription to {}", self.id(), guard.key.uri);
                Err(CallError::timeout(message).at(self.name()))
            }
            _ => Err(CallError::unavailable("the subscription ended before it began").at(self.name())),
        }
    }

    /// A client may get a link of its own, on which its calls change what it watches: it is watched there, too.
    async fn follow(self: &Arc<Self>, guard: &mut Subscribed, origin: &Arc<Origin>) {
        let uri = guard.key.uri.clone();
        let watched = (uri.clone(), origin.clone());
        self.links.subscriptions.by_client().entry(origin.client.clone()).or_default().push(watched);
        guard.follower = Some(origin.clone());
        if let Some(link) = self.links.pool.link_of(&origin.client) {
            let asked = ask_own(link, origin.clone(), Method::RESOURCES_SUBSCRIBE, uri);
            within(self.pace().connect, asked).await;
        }
    }

    /// Subscribes on a link that was opened for a client to what the client watches over the shared link.
    pub(super) async fn watch_on_own_link(&self, link: &Arc<dyn Link>, client: &ClientKey) {
        let watched = self.links.subscriptions.of(client);
        if watched.is_empty() || bridge::subscribes_by_listening(link.greeting().revision) {
            return;
        }
        let asked = watched
            .into_iter()
            .map(|(uri, origin)| ask_own(link.clone(), origin, Method::RESOURCES_SUBSCRIBE, uri));
        within(self.pace().connect, async { drop(join_all(asked).await) }).await;
    }

    fn join(
        self: &Arc<Self>,
        key: SubscriptionKey,
        origin: &Arc<Origin>,
        listeners: &Arc<Listeners>,
        scope: &Scope,
    ) -> (Subscribed, watch::Receiver<Option<Result<(), CallError>>>) {
        let mut all = self.links.subscriptions.shared();
        let shared = all.entry(key.clone()).or_insert_with(|| {
            let (decide, outcome) = watch::channel(None);
            let own = scope.child();
            let (upstream, origin) = (self.clone(), origin.clone());
            let watch = WatchedResource { upstream, origin, key: key.clone() };
            let keeper = Keeper { watch, listeners: listeners.clone(), decide };
            scope.spawn(keeper.run(own.clone()));
            SharedSubscription { count: 0, scope: own, outcome }
        });
        shared.count += 1;
        (Subscribed { upstream: self.clone(), key, follower: None }, shared.outcome.clone())
    }
}

/// Subscribes or unsubscribes on a link of the client's own; the shared link decides whether the resource can be
/// watched at all.
async fn ask_own(link: Arc<dyn Link>, origin: Arc<Origin>, method: Method, uri: String) {
    let id = format!("yard-{method}-{uri}");
    let params = serde_json::json!({ "uri": uri });
    let request = own_request(link.as_ref(), &origin, method, params.into(), &id);
    let _ = link.call(request, Peer::none()).await;
}

async fn within(time: Duration, errand: impl Future<Output = ()>) {
    let _ = tokio::time::timeout(time, errand).await;
}

/// A resource that is watched, and for which client.
#[derive(Clone)]
struct WatchedResource {
    upstream: Arc<Upstream>,
    origin: Arc<Origin>,
    key: SubscriptionKey,
}

/// Holds one subscription at the upstream and renews it when the link is renewed.
struct Keeper {
    watch: WatchedResource,
    listeners: Arc<Listeners>,
    decide: watch::Sender<Option<Result<(), CallError>>>,
}

impl Keeper {
    async fn run(self, scope: Scope) {
        let upstream = &self.watch.upstream;
        let mut state = upstream.life.state.subscribe();
        // An upstream that merely does not answer keeps its link, and with it the subscription.
        let mut subscribed: Option<Weak<dyn Link>> = None;
        while !upstream.life.is_retired() {
            let mut was_held = false;
            if let Ok(lease) = upstream.lease_to_stay(&self.watch.origin).await {
                let lease = Arc::new(lease);
                let link = lease.link();
                subscribed = Some(Arc::downgrade(link));
                let held = async {
                    if bridge::subscribes_by_listening(link.greeting().revision) {
                        self.hold_by_listening(link.as_ref()).await
                    } else {
                        self.hold_in_session(&lease).await
                    }
                };
                tokio::select! {
                    () = scope.ended() => return self.watch.leave(link.as_ref()).await,
                    outcome = held => {
                        was_held = true;
                        self.not_accepted(outcome);
                    }
                }
            }
            if matches!(&*self.decide.borrow(), Some(Err(_))) {
                return;
            }
            // Without a change of the upstream's state, only the stream or the client's own link has ended.
            let try_again = was_held || upstream.links.live().is_some();
            tokio::select! {
                () = scope.ended() => {
                    if let Some(link) = subscribed.and_then(|link| link.upgrade()) {
                        self.watch.leave(link.as_ref()).await;
                    }
                    return;
                }
                _ = state.changed() => {}
                () = tokio::time::sleep(HOLD_AGAIN), if try_again => {}
            }
        }
    }

    /// A subscription that ended before it was accepted is refused.
    fn not_accepted(&self, outcome: Result<(), CallError>) {
        let early = || Err(CallError::bad_answer("the upstream ended the subscription before it began"));
        let outcome = outcome.and_then(|()| early());
        self.decide.send_if_modified(|decided| {
            decided.is_none() && {
                *decided = Some(outcome);
                true
            }
        });
    }

    fn accepted(&self) {
        let was_held = self.decide.send_replace(Some(Ok(()))).is_some();
        if was_held {
            let WatchedResource { upstream, key, .. } = &self.watch;
            self.listeners.watched_again(upstream, key.lane, key.client.as_ref(), &key.uri);
        }
    }

    async fn hold_in_session(&self, lease: &Arc<Lease>) -> Result<(), CallError> {
        let outcome = self.watch.subscribe(lease.clone()).await;
        outcome.unwrap_or_else(|_| Err(CallError::unavailable("the upstream was ended")))?;
        self.accepted();
        // It holds until the link is lost; then it is set up again on the next link.
        lease.ended(&self.watch.upstream).await;
        Ok(())
    }

    async fn hold_by_listening(&self, link: &dyn Link) -> Result<(), CallError> {
        let (send, mut received) = mpsc::channel(64);
        let peer = Peer::new(Arc::new(NotificationSink(send)));
        let call = self.watch.call(link, Method::LISTEN, peer);
        tokio::pin!(call);
        loop {
            let notification = tokio::select! {
                biased;
                Some(notification) = received.recv() => notification,
                ended = &mut call => return ended,
            };
            if notification.method == Method::ACKNOWLEDGED {
                self.acknowledged(&notification)?;
            } else if let Some(params) = notification.params.as_ref() {
                let WatchedResource { upstream, key, .. } = &self.watch;
                self.listeners.resource_updated(upstream, key.lane, key.client.as_ref(), params);
            }
        }
    }

    fn acknowledged(&self, ack: &Notification) -> Result<(), CallError> {
        let honoured =
            ack.params.as_ref().and_then(|params| params.at(&["notifications", "resourceSubscriptions"]));
        let uris: Vec<String> = honoured.and_then(|uris| uris.read().ok()).unwrap_or_default();
        let WatchedResource { upstream, key: SubscriptionKey { uri, .. }, .. } = &self.watch;
        if !uris.contains(uri) {
            return Err(CallError::invalid_params(format!(
                "{} does not support subscriptions to {uri}",
                upstream.id()
            )));
        }
        self.accepted();
        Ok(())
    }
}

impl WatchedResource {
    /// Subscribes in a session. The request is not cancelled if its client disconnects: a server could then begin to
    /// watch after it was asked to stop. The gateway waits for the answer first, and unsubscribes after it.
    fn subscribe(&self, lease: Arc<Lease>) -> oneshot::Receiver<Result<(), CallError>> {
        let (answer_to, outcome) = oneshot::channel();
        let watch = self.clone();
        self.upstream.life.later(Box::pin(async move {
            let turn = watch.upstream.links.keyed_lock.lock(&watch.key.uri).await;
            if answer_to.is_closed() {
                return;
            }
            let mut answer =
                pin!(watch.call(lease.link().as_ref(), Method::RESOURCES_SUBSCRIBE, Peer::none()));
            let answered = tokio::time::timeout(watch.upstream.pace().connect, &mut answer).await;
            drop(turn);
            if let Ok(answered) = answered {
                let _ = answer_to.send(answered);
                return;
            }
            let silence = CallError::timeout("the upstream did not answer `resources/subscribe`");
            let _ = answer_to.send(Err(silence));
            if !matches!(tokio::time::timeout(LATE, answer).await, Ok(Err(_))) {
                watch.leave(lease.link().as_ref()).await;
            }
        }));
        outcome
    }

    async fn call(&self, link: &dyn Link, method: Method, peer: Peer) -> Result<(), CallError> {
        let params = if method == Method::LISTEN {
            serde_json::json!({ "notifications": { "resourceSubscriptions": [self.key.uri] } })
        } else {
            serde_json::json!({ "uri": self.key.uri })
        };
        let id = format!("yard-{method}-{}", self.key.uri);
        let request = own_request(link, &self.origin, method, params.into(), &id);
        link.call(request, peer).await.map(drop)
    }

    /// Ends the subscription in a session. A listening call has been dropped already.
    async fn leave(&self, link: &dyn Link) {
        if bridge::subscribes_by_listening(link.greeting().revision) {
            return;
        }
        let _turn = self.upstream.links.keyed_lock.lock(&self.key.uri).await;
        let is_wanted_again = self.upstream.links.subscriptions.shared().contains_key(&self.key);
        if is_wanted_again {
            return;
        }
        let unsubscribed = async {
            // No request is sent in a session that has ended, or that is shared with a client that is still subscribed.
            if link.per_client() {
                link.unsubscribe(&self.origin, &self.key.uri).await;
            } else {
                let _ = self.call(link, Method::RESOURCES_UNSUBSCRIBE, Peer::none()).await;
            }
        };
        let _ = tokio::time::timeout(self.upstream.pace().connect, unsubscribed).await;
    }
}

/// Takes what arrives on a listening call.
pub(super) struct NotificationSink(pub(super) mpsc::Sender<Notification>);

impl Back for NotificationSink {
    fn notify(&self, notification: Notification) {
        // A full queue means the same thing was announced many times already.
        let _ = self.0.try_send(notification);
    }

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(async {
            Err(AskError::Unsupported("a subscription has no client that could be asked".into()))
        })
    }
}
