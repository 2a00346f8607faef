//! Keeps the current snapshot: rebuilt when upstreams change, not more often than the debounce, and whoever
//! listens is told which lists changed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::mpsc;
use tokio::time::Instant;
use toolyard_model::Origin;
use toolyard_proto::name::UpstreamId;

use super::snapshot::{Part, Views};
use super::{ListKind, Snapshot};
use crate::listen::Listeners;
use crate::plan::Pace;
use crate::upstream::Upstream;

/// How often it is looked whether an instance has been found.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) struct Catalog {
    rules: ArcSwap<Views>,
    current: ArcSwap<Snapshot>,
    pace: Pace,
    listeners: Arc<Listeners>,
    /// Held while a snapshot is made, so that an older one never replaces a newer.
    making: Mutex<()>,
    /// Until when the first list waits for upstreams never seen before.
    first_list: Instant,
}

impl Catalog {
    pub(crate) fn new(rules: Views, pace: Pace, listeners: Arc<Listeners>) -> Self {
        let rules = Arc::new(rules);
        let current = ArcSwap::from_pointee(build(&rules));
        let first_list = Instant::now() + pace.first_list;
        Self { rules: ArcSwap::new(rules), current, pace, listeners, making: Mutex::new(()), first_list }
    }

    pub(crate) fn rules(&self) -> Arc<Views> {
        self.rules.load_full()
    }

    /// Goes by other rules from now on.
    pub(crate) fn replace(&self, rules: Views) {
        self.rules.store(Arc::new(rules));
        self.refresh();
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Whether the gateway has only just begun.
    pub(crate) fn is_new(&self) -> bool {
        Instant::now() < self.first_list
    }

    /// Waits, once and for all of them together, for upstreams that have never said what they offer.
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
        self.refresh();
    }

    /// The same for a view of one upstream.
    pub(crate) async fn first_list_of(&self, upstream: &Upstream) {
        if Instant::now() >= self.first_list {
            return;
        }
        let _ = tokio::time::timeout_at(self.first_list, upstream.life.settled()).await;
        self.refresh();
    }

    /// The same for a session of the hub view that was connected to an instance before a restart.
    pub(crate) async fn first_word_of_instance(&self, origin: &Origin) {
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
            self.show(&instance);
        }
    }

    /// Rebuilds on every word from an upstream, until the channel closes.
    pub(crate) async fn keep(self: Arc<Self>, mut changed: mpsc::Receiver<()>) {
        while changed.recv().await.is_some() {
            self.refresh();
            // The first change shows at once; more of them within the debounce show together at its end.
            tokio::time::sleep(self.pace.debounce).await;
        }
    }

    /// Makes sure that what an upstream has said it offers is in the snapshot, without waiting.
    pub(crate) fn show(&self, upstream: &Upstream) {
        let snapshot = self.snapshot();
        let known = snapshot.parts().iter().find(|part| part.upstream.id() == upstream.id());
        let is_shown = match (known, upstream.definitions()) {
            (Some(part), Some(latest)) => part.listed && Arc::ptr_eq(&part.definitions, &latest),
            (_, latest) => latest.is_none(),
        };
        if !is_shown {
            self.refresh();
        }
    }

    fn refresh(&self) {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Arc::new(build(&self.rules()));
        let old = self.current.swap(new.clone());
        drop(making);
        self.listeners.lists_changed(&differences(&old, &new), &old, &new);
    }
}

fn build(rules: &Arc<Views>) -> Snapshot {
    let mut settled = true;
    let parts = rules.upstreams.iter().filter_map(|upstream| {
        settled &= upstream.life.is_settled() || upstream.definitions().is_some();
        let (definitions, listed) = (upstream.definitions()?, upstream.is_listed());
        let built_in = *upstream.id() == UpstreamId::yard();
        let names = upstream.other_names();
        Some(Part { upstream: upstream.clone(), names, definitions, listed, built_in })
    });
    let parts = parts.collect();
    Snapshot::build(rules.clone(), parts, settled)
}

/// A list of an upstream that a client may see differently.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) upstream: UpstreamId,
    pub(crate) kind: ListKind,
    /// The list is as it was, but its upstream goes by another name: only profiles ask for that.
    pub(crate) is_in_name_only: bool,
}

fn differences(old: &Snapshot, new: &Snapshot) -> Vec<Change> {
    fn find<'a>(snapshot: &'a Snapshot, id: &UpstreamId) -> Option<&'a Part> {
        snapshot.parts().iter().find(|part| part.listed && part.upstream.id() == id)
    }
    let mut ids: Vec<&UpstreamId> = new.rules().upstreams.iter().map(|upstream| upstream.id()).collect();
    ids.extend(
        old.rules().upstreams.iter().map(|upstream| upstream.id()).filter(|id| new.find(id).is_none()),
    );
    let mut out = Vec::new();
    for id in ids {
        let (before, after) = (find(old, id), find(new, id));
        let is_renamed = before.zip(after).is_some_and(|(before, after)| before.names != after.names);
        for kind in ListKind::ALL {
            let list = |part: Option<&Part>| {
                part.map(|part| part.definitions.list(kind).to_vec()).unwrap_or_default()
            };
            let is_in_name_only = list(before) == list(after);
            if !is_in_name_only || (is_renamed && !list(after).is_empty()) {
                out.push(Change { upstream: id.clone(), kind, is_in_name_only });
            }
        }
    }
    out
}
