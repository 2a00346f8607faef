//! Keeps the current snapshot. The catalog's own task builds the next snapshot from changes, on a thread where no call
//! waits; calls use the current one until it is swapped. Replaced snapshots are dropped here, too, and never by a call.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use toolyard_model::{Origin, View};
use toolyard_proto::name::UpstreamId;

use super::definitions::List;
use super::pages::Pages;
use super::part::Part;
use super::snapshot::Views;
use super::{Definitions, ListKind, Snapshot};
use crate::beside_calls::beside_calls;
use crate::event::{Events, What};
use crate::listen::Listeners;
use crate::plan::Pace;
use crate::upstream::Upstream;

/// How often the catalog is checked for an instance that is awaited.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long until a replaced snapshot that a call still holds is checked again.
const SWEEP_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Catalog {
    rules: ArcSwap<Views>,
    current: ArcSwap<Snapshot>,
    pages: Arc<Pages>,
    pace: Pace,
    listeners: Arc<Listeners>,
    events: Arc<Events>,
    /// Held while a snapshot is made, so that an older one never replaces a newer.
    making: Mutex<()>,
    /// Snapshots that were replaced and may still be in use.
    replaced: Mutex<Vec<Arc<Snapshot>>>,
    /// The number of requests for a snapshot, and the number up to which the current snapshot answers them.
    asked: AtomicU64,
    answered: watch::Sender<u64>,
    /// Counts changes of the upstreams and of what they offer.
    changes: watch::Sender<u64>,
    wanted: Notify,
    /// Until when the first list waits for upstreams never seen before.
    first_list: Instant,
}

impl Catalog {
    pub(crate) fn new(rules: Views, pace: Pace, listeners: Arc<Listeners>, events: Arc<Events>) -> Self {
        let (rules, pages) = (Arc::new(rules), Arc::new(Pages::default()));
        Self {
            current: ArcSwap::from_pointee(Snapshot::now(rules.clone(), None, &pages)),
            rules: ArcSwap::new(rules),
            pages,
            pace,
            listeners,
            events,
            making: Mutex::new(()),
            replaced: Mutex::default(),
            asked: AtomicU64::new(0),
            answered: watch::Sender::new(0),
            changes: watch::Sender::new(0),
            wanted: Notify::new(),
            first_list: Instant::now() + pace.first_list,
        }
    }

    pub(crate) fn rules(&self) -> Arc<Views> {
        self.rules.load_full()
    }

    /// Replaces the rules. They take effect at once, or shortly after if another change is being made. No call waits.
    pub(crate) fn replace(&self, rules: Views) {
        let tools = rules.upstreams.iter().filter_map(|upstream| upstream.definitions());
        let tools = tools.map(|definitions| definitions.list(ListKind::Tools).len()).sum();
        beside_calls(tools, || {
            self.rules.store(Arc::new(rules));
            if let Some(making) = self.making.try_lock() {
                self.make(&making);
            }
        });
        self.changes.send_modify(|count| *count += 1);
        self.wanted.notify_one();
    }

    /// Changes whenever an upstream comes or goes, or offers something else.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Whether upstreams have come or gone that this snapshot does not show yet.
    pub(crate) fn has_newer_rules(&self, snapshot: &Snapshot) -> bool {
        !std::ptr::eq(&raw const **self.rules.load(), snapshot.rules())
    }

    /// Whether a session of the hub view is connected to an instance that has not been found since a restart, or that
    /// this snapshot does not show yet.
    pub(crate) fn awaits_instance(&self, snapshot: &Snapshot, origin: &Origin) -> bool {
        let hub = &snapshot.rules().hub;
        let target = (origin.view == View::Hub).then(|| hub.target(&origin.client)).flatten();
        target.is_some_and(|id| match snapshot.find(&id) {
            Some(_) => snapshot.parts().iter().all(|part| *part.upstream.id() != id),
            // The order matters: an instance is among the rules before it stops being awaited.
            None => {
                hub.is_awaited(&origin.client)
                    || self.rules.load().upstreams.iter().any(|one| *one.id() == id)
            }
        })
    }

    /// Whether the gateway has just been started.
    pub(crate) fn is_new(&self) -> bool {
        Instant::now() < self.first_list
    }

    /// Waits, once and for all of them together, for upstreams whose definitions were never received.
    pub(crate) async fn first_list(&self) {
        if self.current.load().settled || Instant::now() >= self.first_list {
            return;
        }
        let rules = self.rules();
        let all = futures_util::future::join_all(rules.upstreams.iter().map(|upstream| async move {
            if upstream.definitions().is_none() {
                upstream.life.settled().await;
            }
        }));
        let _ = tokio::time::timeout_at(self.first_list, all).await;
        self.caught_up().await;
    }

    /// The same for a view of one upstream.
    pub(crate) async fn first_list_of(&self, upstream: &Upstream) {
        if Instant::now() >= self.first_list {
            return;
        }
        let _ = tokio::time::timeout_at(self.first_list, upstream.life.settled()).await;
        self.caught_up().await;
    }

    /// The same for a session of the hub view that was connected to an instance before a restart.
    pub(crate) async fn first_list_of_instance(&self, origin: &Origin) {
        let instance = || {
            let id = self.rules().hub.target(&origin.client)?;
            self.rules().upstreams.iter().find(|upstream| *upstream.id() == id).cloned()
        };
        while self.is_new() {
            if let Some(instance) = instance() {
                return self.first_list_of(&instance).await;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        if let Some(instance) = instance() {
            self.show(&instance).await;
        }
    }

    /// Works changes in until the channel closes.
    pub(crate) async fn keep(self: Arc<Self>, mut changed: mpsc::Receiver<()>) {
        loop {
            tokio::select! {
                change = changed.recv() => if change.is_none() { return },
                () = self.wanted.notified() => {}
                () = tokio::time::sleep(SWEEP_AGAIN), if self.has_replaced() => {}
            }
            self.refresh().await;
            // The first change shows at once; more of them within the debounce show together at its end.
            let pause = tokio::time::sleep(self.pace.debounce);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    () = self.wanted.notified() => self.refresh().await,
                }
            }
        }
    }

    /// Makes sure that what an upstream offers is in the snapshot.
    pub(crate) async fn show(&self, upstream: &Upstream) {
        let snapshot = self.snapshot();
        let known = snapshot.parts().iter().find(|part| part.upstream.id() == upstream.id());
        let is_shown = match (known, upstream.definitions()) {
            (Some(part), Some(latest)) => part.listed && Arc::ptr_eq(&part.definitions, &latest),
            (_, latest) => latest.is_none(),
        };
        if !is_shown || snapshot.find(upstream.id()).is_none() {
            self.caught_up().await;
        }
    }

    /// Waits until the catalog's task has worked in everything that upstreams have reported so far.
    pub(crate) async fn caught_up(&self) {
        let request = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut answered = self.answered.subscribe();
        self.wanted.notify_one();
        let _ = answered.wait_for(|answered| *answered >= request).await;
    }

    async fn refresh(self: &Arc<Self>) {
        let catalog = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            let asked = catalog.asked.load(Ordering::Acquire);
            catalog.make(&catalog.making.lock());
            catalog.sweep();
            catalog.answered.send_if_modified(|answered| {
                let is_new = *answered < asked;
                *answered = asked.max(*answered);
                is_new
            });
        });
        // It fails only if the work panicked, which is logged where it happened.
        let _ = work.await;
    }

    /// Makes the next snapshot and announces what is different in it.
    fn make(&self, _making: &MutexGuard<'_, ()>) {
        let before = self.snapshot();
        let next = Snapshot::now(self.rules(), Some(&before), &self.pages);
        if before.is_as(&next) {
            return;
        }
        let next = Arc::new(next);
        self.current.store(next.clone());
        self.changes.send_modify(|count| *count += 1);
        log_faults(&before, &next);
        let changes = differences(&before, &next);
        self.listeners.lists_changed(&changes, &before, &next);
        self.emit(&changes);
        self.pages.keep_only(&next.view_ids());
        self.replaced.lock().push(before);
    }

    fn emit(&self, changes: &[ListChange]) {
        let mut upstreams: Vec<Arc<str>> =
            changes.iter().map(|change| change.upstream.as_str().into()).collect();
        upstreams.sort();
        upstreams.dedup();
        if !upstreams.is_empty() {
            self.events.emit(What::CatalogChanged { upstreams });
        }
    }

    fn has_replaced(&self) -> bool {
        !self.replaced.lock().is_empty()
    }

    /// Drops the replaced snapshots that no call uses any longer.
    fn sweep(&self) {
        let mut replaced = self.replaced.lock();
        let unused: Vec<Arc<Snapshot>> =
            replaced.extract_if(.., |snapshot| Arc::strong_count(snapshot) == 1).collect();
        drop(replaced);
        drop(unused);
    }
}

/// Logs which of the new definitions clients do not get, and why.
fn log_faults(before: &Snapshot, next: &Snapshot) {
    let known: HashSet<*const Definitions> =
        before.parts().iter().map(|part| Arc::as_ptr(&part.definitions)).collect();
    for part in next.parts().iter().filter(|part| !known.contains(&Arc::as_ptr(&part.definitions))) {
        for fault in part.definitions.faults() {
            tracing::warn!(target: "upstream", upstream = %part.upstream.id(), "{fault}");
        }
    }
}

/// A list of an upstream that a client may see differently.
#[derive(Clone, Debug)]
pub(crate) struct ListChange {
    pub(crate) upstream: UpstreamId,
    pub(crate) kind: ListKind,
    /// The list is unchanged, but its upstream has another name: that concerns only profiles.
    pub(crate) is_in_name_only: bool,
}

/// The differences that clients see, part by part; unchanged parts are skipped.
fn differences(old: &Snapshot, new: &Snapshot) -> Vec<ListChange> {
    fn by_id(snapshot: &Snapshot) -> HashMap<&UpstreamId, &Arc<Part>> {
        let listed = snapshot.parts().iter().filter(|part| part.listed);
        listed.map(|part| (part.upstream.id(), part)).collect()
    }
    let (before, after) = (by_id(old), by_id(new));
    let gone = before.keys().filter(|id| !after.contains_key(*id));
    let mut out = Vec::new();
    for id in after.keys().chain(gone) {
        let (before, after) = (before.get(id).copied(), after.get(id).copied());
        if before.zip(after).is_some_and(|(before, after)| Arc::ptr_eq(before, after)) {
            continue;
        }
        let is_renamed = before.zip(after).is_some_and(|(before, after)| before.names != after.names);
        let not_offered = |part: Option<&Arc<Part>>| {
            let definitions = part.map(|part| &part.definitions);
            definitions.map(|one| (one.held().clone(), one.off().clone())).unwrap_or_default()
        };
        let same_offered = not_offered(before) == not_offered(after);
        for kind in ListKind::ALL {
            let list = |part: Option<&Arc<Part>>| part.map(|part| part.definitions.shared_list(kind));
            let (before, after) = (list(before), list(after));
            let is_empty = |list: &Option<Arc<List>>| list.as_ref().is_none_or(|list| list.is_empty());
            let is_in_name_only = match (&before, &after) {
                (Some(before), Some(after)) => before.is_as(after),
                _ => is_empty(&before) && is_empty(&after),
            };
            let is_in_name_only = is_in_name_only && (kind != ListKind::Tools || same_offered);
            if !is_in_name_only || (is_renamed && !is_empty(&after)) {
                out.push(ListChange { upstream: (*id).clone(), kind, is_in_name_only });
            }
        }
    }
    out
}
