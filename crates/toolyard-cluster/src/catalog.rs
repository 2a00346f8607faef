//! Keeps two things in step: the upstreams of this gateway that other nodes may use, and those of other nodes that this
//! gateway shows. Neither makes a list or a call wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use toolyard_core::settings::Pattern;
use toolyard_core::upstream::Upstream;
use toolyard_core::upstream::state::Phase;
use toolyard_core::{Gateway, UpstreamKind, UpstreamPlan};
use toolyard_proto::name::UpstreamId;

use crate::links::{LinkContext, NodeConnect};
use crate::shared::Shared;

/// How often the own upstreams are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(50);

/// Which upstreams other nodes may see.
#[derive(Clone, Debug)]
pub(crate) struct Exports(Vec<Pattern>);

impl Exports {
    pub(crate) fn new(patterns: &[String]) -> Self {
        Self(patterns.iter().map(|pattern| Pattern::new(pattern)).collect())
    }

    pub(crate) fn names(&self, id: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(id))
    }
}

pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gateway: Gateway,
    pub(crate) context: LinkContext,
    pub(crate) exports: Exports,
    /// Packs are on every node; only those that are named are offered.
    pub(crate) packs: Vec<String>,
    pub(crate) wanted: BTreeSet<String>,
    pub(crate) joined: BTreeMap<String, Arc<Upstream>>,
}

impl Keeper {
    pub(crate) async fn run(mut self) {
        let mut changes = self.shared.changes.subscribe();
        loop {
            changes.borrow_and_update();
            self.offer();
            self.show();
            let _ = timeout(LOOK, changes.changed()).await;
            sleep(GATHER).await;
        }
    }

    /// Claims what this gateway has, and frees what it has no more.
    fn offer(&mut self) {
        let mut wanted = BTreeSet::new();
        for upstream in self.gateway.upstreams() {
            let (id, kind) = (upstream.id().as_str().to_owned(), upstream.kind());
            if !self.is_offered(&upstream) {
                continue;
            }
            if !self.wanted.contains(&id) {
                self.shared.want(&id, kind.as_str(), self.exports.names(&id));
            }
            wanted.insert(id);
        }
        for gone in self.wanted.difference(&wanted) {
            self.shared.release(gone);
        }
        self.wanted = wanted;
    }

    fn is_offered(&self, upstream: &Upstream) -> bool {
        let id = upstream.id().as_str();
        match upstream.kind() {
            UpstreamKind::Server => self.exports.names(id),
            UpstreamKind::App | UpstreamKind::Instance => {
                self.exports.names(id) && upstream.state().phase != Phase::Dead
            }
            UpstreamKind::BuiltIn => self.packs.iter().any(|pack| pack == id),
            UpstreamKind::Node => false,
        }
    }

    /// Shows what other nodes own, and removes what they own no more.
    fn show(&mut self) {
        let Some(theirs) = self.theirs() else { return };
        let gone: Vec<String> = self.joined.keys().filter(|id| !theirs.contains(*id)).cloned().collect();
        for id in gone {
            if let Some(upstream) = self.joined.remove(&id) {
                self.gateway.remove(&upstream);
            }
        }
        for id in theirs {
            if !self.joined.contains_key(&id) {
                self.join(id);
            }
        }
    }

    /// The ids that other nodes own, offer and can be asked for. Nothing as long as the store has not shown everything.
    fn theirs(&self) -> Option<BTreeSet<String>> {
        let now = self.shared.now();
        let state = self.shared.state();
        if !state.in_sync {
            return None;
        }
        let me = state.ownership.me();
        let owners = state.owners.iter().filter(|(_, owner)| {
            owner.is_exported && owner.member.node != me.node && state.ownership.is_alive(&owner.member, now)
        });
        Some(owners.map(|(id, _)| id.clone()).collect())
    }

    fn join(&mut self, id: String) {
        let Ok(parsed) = UpstreamId::parse(&id) else { return };
        let (shared, context) = (self.shared.clone(), self.context.clone());
        let connect = NodeConnect { id: id.as_str().into(), shared, context };
        let plan = UpstreamPlan::new(parsed, UpstreamKind::Node, Arc::new(connect));
        // An upstream of this gateway with the same id comes first.
        if let Ok(upstream) = self.gateway.join(plan) {
            self.joined.insert(id, upstream);
        }
    }
}
