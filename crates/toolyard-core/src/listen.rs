//! The clients that listen for changes: every open `subscriptions/listen`, and what reaches it.

mod succession;
mod tasks;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use toolyard_model::{Answer, AnswerBody, ClientKey, Origin, Peer, Request, Scope, View};
use toolyard_proto::modern::LogLevel;
use toolyard_proto::name::UpstreamId;
use toolyard_proto::uri::{ResultKind, map_result};
use toolyard_proto::{CallError, Method, Notification, Raw};

use crate::bridge;
use crate::catalog::{Catalog, ListChange, ListKind, Snapshot};
use crate::upstream::{Lane, Subscribed, Upstream};
use tasks::AfterAck;

/// How many resources one request may listen to.
const MOST_RESOURCES: usize = 1_000;

/// How many tasks one request may listen to.
const MOST_TASKS: usize = 1_000;

/// All open subscriptions of clients.
#[derive(Default)]
pub(crate) struct Listeners {
    open: Mutex<HashMap<u64, Arc<Listener>>>,
    next: AtomicU64,
    /// Set once, when the gateway is complete; until then no client listens. The catalog owns its listeners.
    catalog: OnceLock<Weak<Catalog>>,
}

struct Listener {
    origin: Arc<Origin>,
    peer: Peer,
    filter: Filter,
    /// Changes only when an upstream is replaced by another of its name, or is no longer visible to the client.
    resources: Mutex<Vec<Watched>>,
    /// Ends with the gateway, or when nothing is left to listen to.
    open: Scope,
}

/// One resource that a client watches.
struct Watched {
    upstream: Arc<Upstream>,
    own_uri: String,
    _subscription: Subscribed,
}

/// The notifications that a client asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    resource_subscriptions: Vec<String>,
    task_ids: Vec<String>,
}

impl Filter {
    fn wants(&self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tools => self.tools_list_changed,
            ListKind::Prompts => self.prompts_list_changed,
            ListKind::Resources | ListKind::Templates => self.resources_list_changed,
        }
    }

    fn to_raw(&self) -> Raw {
        let mut out = serde_json::Map::new();
        for (key, wanted) in [
            ("toolsListChanged", self.tools_list_changed),
            ("promptsListChanged", self.prompts_list_changed),
            ("resourcesListChanged", self.resources_list_changed),
        ] {
            if wanted {
                out.insert(key.into(), true.into());
            }
        }
        if !self.resource_subscriptions.is_empty() {
            out.insert("resourceSubscriptions".into(), self.resource_subscriptions.clone().into());
        }
        if !self.task_ids.is_empty() {
            out.insert("taskIds".into(), self.task_ids.clone().into());
        }
        serde_json::Value::Object(out).into()
    }
}

impl Listener {
    /// Announces that lists have changed, with one notification per method.
    fn announce(&self, kinds: impl Iterator<Item = ListKind>) {
        let mut announced: Vec<Method> = Vec::new();
        for method in kinds.map(announcement) {
            if !announced.contains(&method) {
                self.peer.notify(Notification::new(method.clone(), None));
                announced.push(method);
            }
        }
    }

    /// Does nothing if the client does not see the upstream: a session of the hub may have connected to another
    /// instance while it subscribed.
    fn announce_update(&self, snapshot: &Snapshot, upstream: &UpstreamId, params: &Raw) {
        if sees(snapshot, &self.origin, upstream) || snapshot.awaits(upstream, &self.origin) {
            let params = shown_params(snapshot, &self.origin, upstream, params);
            self.peer.notify(Notification::new(Method::RESOURCE_UPDATED, params));
        }
    }

    fn watched(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.resources.lock()
    }
}

impl Listeners {
    pub(crate) fn attach(&self, catalog: &Arc<Catalog>) {
        let _ = self.catalog.set(Arc::downgrade(catalog));
    }

    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.catalog.get()?.upgrade().map(|catalog| catalog.snapshot())
    }

    fn all(&self) -> Vec<Arc<Listener>> {
        self.open.lock().values().cloned().collect()
    }

    /// Lists of upstreams changed: each client that sees one of them and listens for it gets one notification per list.
    /// Clients of an upstream that was removed are notified, too.
    pub(crate) fn lists_changed(&self, changes: &[ListChange], before: &Snapshot, after: &Snapshot) {
        for listener in self.all() {
            let origin = &listener.origin;
            let concerns = |ListChange { upstream, kind, is_in_name_only }: &&ListChange| {
                listener.filter.wants(*kind)
                    && (!is_in_name_only || matches!(origin.view, View::Profile(_)))
                    && (sees(after, origin, upstream) || sees(before, origin, upstream))
            };
            listener.announce(changes.iter().filter(concerns).map(|change| change.kind));
        }
    }

    /// An upstream announced that these lists have changed, but they are the same as before.
    pub(crate) fn list_announced(&self, upstream: &UpstreamId, kinds: &[ListKind]) {
        let Some(snapshot) = self.snapshot() else { return };
        for listener in self.all().iter().filter(|listener| sees(&snapshot, &listener.origin, upstream)) {
            listener.announce(kinds.iter().copied().filter(|kind| listener.filter.wants(*kind)));
        }
    }

    /// These lists of a client have changed, because it sees other upstreams now.
    pub(crate) fn switched(&self, client: &ClientKey, kinds: &[ListKind]) {
        for listener in self.all().iter().filter(|listener| listener.origin.client == *client) {
            listener.announce(kinds.iter().copied().filter(|kind| listener.filter.wants(*kind)));
        }
    }

    /// The origins of these clients, each once.
    pub(crate) fn origins_of(&self, clients: &[ClientKey]) -> Vec<Arc<Origin>> {
        let all = self.all();
        let origin = |client: &ClientKey| {
            all.iter().find(|listener| listener.origin.client == *client).map(|one| one.origin.clone())
        };
        clients.iter().filter_map(origin).collect()
    }

    /// Ends a client's subscriptions at upstreams that it no longer sees, and every `subscriptions/listen` without any
    /// subscription left.
    pub(crate) fn let_go(&self, client: &ClientKey, upstream: &Upstream) {
        for listener in self.all().iter().filter(|listener| listener.origin.client == *client) {
            let ended: Vec<Watched> =
                listener.watched().extract_if(.., |watched| watched.upstream.id() == upstream.id()).collect();
            let is_empty = !ended.is_empty() && listener.watched().is_empty();
            drop(ended);
            if is_empty && !ListKind::ALL.iter().any(|kind| listener.filter.wants(*kind)) {
                listener.open.cancel();
            }
        }
    }

    /// Passes on what an upstream sent outside of calls, on one of its links.
    pub(crate) fn take(
        &self,
        upstream: &Upstream,
        lane: Lane,
        client: Option<&ClientKey>,
        notification: &Notification,
    ) {
        match &notification.params {
            Some(params) if notification.method == Method::RESOURCE_UPDATED => {
                self.resource_updated(upstream, lane, client, params);
            }
            _ => self.pass_on(upstream, lane, client, notification),
        }
    }

    /// A resource changed. Servers may name a part of what was watched, so a prefix counts.
    pub(crate) fn resource_updated(
        &self,
        upstream: &Upstream,
        lane: Lane,
        client: Option<&ClientKey>,
        params: &Raw,
    ) {
        let Some(uri) = params.member("uri").and_then(|uri| uri.as_string()) else { return };
        let Some(snapshot) = self.snapshot() else { return };
        for listener in self.all() {
            let watches = |watched: &Watched| {
                watched.upstream.id() == upstream.id() && uri.starts_with(&watched.own_uri)
            };
            if belongs(&listener.origin, client)
                && upstream.lane_of(&listener.origin) == lane
                && listener.watched().iter().any(watches)
            {
                listener.announce_update(&snapshot, upstream.id(), params);
            }
        }
    }

    /// A subscription was renewed. Updates in the meantime were missed, so the client is notified once.
    pub(crate) fn watched_again(
        &self,
        upstream: &Upstream,
        lane: Lane,
        client: Option<&ClientKey>,
        own_uri: &str,
    ) {
        self.resource_updated(upstream, lane, client, &update_of(own_uri));
    }

    /// A message that belongs to no call reaches clients that keep a session: logs wherever the upstream is
    /// visible, everything else only in the view of the upstream alone.
    fn pass_on(
        &self,
        upstream: &Upstream,
        lane: Lane,
        client: Option<&ClientKey>,
        notification: &Notification,
    ) {
        let Some(snapshot) = self.snapshot() else { return };
        let is_log = notification.method == Method::LOG;
        let listeners = self.all();
        if client.is_none()
            && !have_one_principal(&listeners, |origin| sees(&snapshot, origin, upstream.id()))
        {
            tracing::debug!(upstream = %upstream.id(), method = %notification.method, "dropped a notification: several principals share this upstream");
            return;
        }
        for listener in listeners {
            let origin = &listener.origin;
            let Some(view) = snapshot.seen_by(origin) else { continue };
            let in_sight =
                if is_log { view.upstream(upstream.id().as_str()).is_some() } else { view.alone.is_some() };
            let first = listener.filter.tools_list_changed && bridge::has_inbox(origin);
            if first
                && in_sight
                && belongs(origin, client)
                && upstream.lane_of(origin) == lane
                && sees(&snapshot, origin, upstream.id())
                && grave_enough(origin, notification)
                && (client == Some(&origin.client)
                    || upstream.links.task_owners.may_receive(notification, origin))
            {
                listener.peer.notify(notification.clone());
            }
        }
    }

    /// An upstream has replaced another of its name: subscriptions at its predecessors are moved to it.
    pub(crate) fn came_back(self: &Arc<Self>, upstream: &Arc<Upstream>, scope: &Scope) {
        let mut gone: Vec<Arc<Upstream>> = Vec::new();
        for listener in self.all() {
            let watched = listener.watched();
            let old = watched.iter().map(|watched| &watched.upstream);
            let old = old.filter(|old| old.id() == upstream.id() && old.life.is_retired());
            for old in old {
                if !gone.iter().any(|known| Arc::ptr_eq(known, old)) {
                    gone.push(old.clone());
                }
            }
        }
        for old in gone {
            self.move_over(&old, upstream, scope);
        }
    }

    fn register(self: &Arc<Self>, listener: Listener) -> Registered {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(key, Arc::new(listener));
        Registered { listeners: self.clone(), key }
    }

    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }
}

/// Removes the listener when its subscription ends, for whatever reason.
struct Registered {
    listeners: Arc<Listeners>,
    key: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.listeners.open.lock().remove(&self.key);
    }
}

/// Ends the task notifications of a request when the request ends, for whatever reason.
struct EndOnDrop(Scope);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Templates have no notification of their own; they are announced with the resources.
fn announcement(kind: ListKind) -> Method {
    match kind {
        ListKind::Tools => Method::TOOLS_CHANGED,
        ListKind::Prompts => Method::PROMPTS_CHANGED,
        ListKind::Resources | ListKind::Templates => Method::RESOURCES_CHANGED,
    }
}

/// Whether all clients that see it have the same principal. A message of a shared upstream outside of any call may be
/// about the call of any of them, and must reach no other principal.
fn have_one_principal(listeners: &[Arc<Listener>], sees: impl Fn(&Origin) -> bool) -> bool {
    let mut principals =
        listeners.iter().filter(|listener| sees(&listener.origin)).map(|l| &l.origin.principal);
    let first = principals.next();
    principals.all(|other| Some(other) == first)
}

fn update_of(own_uri: &str) -> Raw {
    serde_json::json!({ "uri": own_uri }).into()
}

fn sees(snapshot: &Snapshot, origin: &Origin, upstream: &UpstreamId) -> bool {
    snapshot.seen_by(origin).is_some_and(|view| match &view.alone {
        Some(alone) => alone.id() == upstream,
        None => view.upstream(upstream.as_str()).is_some(),
    })
}

/// Whether a message of one client's upstream session is for this listener.
fn belongs(origin: &Origin, client: Option<&ClientKey>) -> bool {
    client.is_none_or(|client| *client == origin.client || *client == ClientKey::Gateway)
}

fn grave_enough(origin: &Origin, notification: &Notification) -> bool {
    if notification.method != Method::LOG {
        return true;
    }
    match (origin.log_level.get(), LogLevel::of(notification.params.as_ref())) {
        (Some(wanted), Some(level)) => level >= wanted,
        _ => true,
    }
}

fn shown_params(snapshot: &Snapshot, origin: &Origin, upstream: &UpstreamId, params: &Raw) -> Raw {
    if snapshot.seen_by(origin).is_none_or(|view| !view.is_namespaced()) {
        return params.clone();
    }
    let mapped = map_result(ResultKind::UpdatedParams, upstream, params.as_bytes());
    mapped.and_then(|mapped| Raw::parse(mapped).ok()).unwrap_or_else(|| params.clone())
}

/// Answers `subscriptions/listen`: acknowledges what is honoured and stays until the client or the gateway ends it.
pub(crate) async fn listen(
    listeners: Arc<Listeners>,
    catalog: Arc<Catalog>,
    scope: Scope,
    request: Request,
    peer: Peer,
) -> Answer {
    let mut filter: Filter = match request.params.member("notifications") {
        Some(filter) => {
            filter.read().map_err(|error| CallError::invalid_params(format!("`notifications`: {error}")))?
        }
        None => {
            return Err(CallError::invalid_params(
                "`notifications` is required: it states what to listen for",
            ));
        }
    };
    if filter.resource_subscriptions.len() > MOST_RESOURCES {
        let most = format!("at most {MOST_RESOURCES} resources may be listened to at once");
        return Err(CallError::invalid_params(most));
    }
    if filter.task_ids.len() > MOST_TASKS {
        let most = format!("at most {MOST_TASKS} tasks may be listened to at once");
        return Err(CallError::invalid_params(most));
    }
    if !filter.task_ids.is_empty() && !crate::tasks::declared(&request.origin) {
        return Err(crate::tasks::undeclared());
    }
    let snapshot = catalog.snapshot();
    let (resources, failure) =
        watch_all(&listeners, &snapshot, &scope, &request, &filter.resource_subscriptions).await;
    let honoured: Vec<String> = resources.iter().map(|(shown, _)| shown.clone()).collect();
    let (origin, open) = (request.origin.clone(), scope.child());
    let _end_with_the_request = EndOnDrop(open.clone());
    let after_ack = AfterAck::new(peer.clone());
    let tasks = match snapshot.seen_by(&origin).filter(|_| !filter.task_ids.is_empty()) {
        Some(view) => tasks::follow_all(view, &origin, &after_ack, &open, &filter.task_ids).await,
        None => Vec::new(),
    };
    let wants_nothing_else = !ListKind::ALL.iter().any(|kind| filter.wants(*kind));
    if wants_nothing_else && honoured.is_empty() && tasks.is_empty() {
        if let Some(error) = failure {
            return Err(error);
        }
        if let Some(unknown) = filter.task_ids.first() {
            return Err(CallError::invalid_params(format!("unknown task {unknown:?}")));
        }
    }
    filter.resource_subscriptions = honoured;
    filter.task_ids = tasks;
    let ack = Raw::empty_object().with("notifications", &filter.to_raw());
    let resources = Mutex::new(resources.into_iter().map(|(_, watched)| watched).collect());
    let listener = Listener { origin, peer: peer.clone(), filter, resources, open: open.clone() };
    let _registered = listeners.register(listener);
    after_ack.acknowledge(Notification::new(Method::ACKNOWLEDGED, ack));
    open.ended().await;
    if !scope.is_ended() {
        return Err(CallError::unavailable("the subscribed resource is no longer visible in this view"));
    }
    Ok(AnswerBody::ours(serde_json::json!({ "resultType": "complete" }).into()))
}

/// Subscribes to every URI at its owner. Returns the URIs that succeeded, and the last reason of those that failed.
async fn watch_all(
    listeners: &Arc<Listeners>,
    snapshot: &Snapshot,
    scope: &Scope,
    request: &Request,
    uris: &[String],
) -> (Vec<(String, Watched)>, Option<CallError>) {
    let watch = async |shown: &String| -> Result<(String, Watched), CallError> {
        let found = snapshot.seen_by(&request.origin).and_then(|view| view.resource(shown));
        let may_read = |(upstream, own_uri): &(Arc<Upstream>, String)| {
            snapshot.rules().steps.may_read(&request.origin, upstream, own_uri)
        };
        let found = found.filter(may_read);
        let (upstream, own_uri) = found.ok_or_else(|| unknown_resource(snapshot, &request.origin, shown))?;
        let subscription = upstream.subscribe(own_uri.clone(), &request.origin, listeners, scope).await?;
        Ok((shown.clone(), Watched { upstream, own_uri, _subscription: subscription }))
    };
    let mut failure = None;
    let mut watched = Vec::new();
    for outcome in join_all(uris.iter().map(watch)).await {
        match outcome {
            Ok(one) => watched.push(one),
            Err(error) => failure = Some(error),
        }
    }
    (watched, failure)
}

fn unknown_resource(snapshot: &Snapshot, origin: &Origin, shown: &str) -> CallError {
    let is_hub = snapshot.seen_by(origin).is_some_and(|view| view.is_hub);
    if is_hub {
        return snapshot.rules().hub.not_connected(&origin.client);
    }
    CallError::invalid_params(format!("unknown resource {shown}"))
}
