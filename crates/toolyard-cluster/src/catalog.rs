//! Keeps two things in step: the upstreams of this gateway that other nodes may use, and those of other nodes that this
//! gateway shows. Neither makes a list or a call wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;
use toolyard_core::settings::Pattern;
use toolyard_core::upstream::Upstream;
use toolyard_core::upstream::state::Phase;
use toolyard_core::{Gateway, UpstreamKind, UpstreamPlan};
use toolyard_proto::name::UpstreamId;

use crate::links::{LinkContext, NodeConnect};
use crate::record::ConditionRecord;
use crate::shared::Shared;

/// How often this node checks its own upstreams if no change was reported: a lost app changes no list at first.
const LOOK: Duration = Duration::from_millis(500);
/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(20);
/// Of how many upstreams that are not active others learn why.
const MOST_CONDITIONS: usize = 200;
/// How many instances are described to others, and how long a description may be.
const MOST_INSTANCES: usize = 200;
const LONGEST_ABOUT: usize = 1_000;

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
        let (mut theirs, mut ours) = (self.shared.changes.subscribe(), self.gateway.catalog_changes());
        loop {
            theirs.borrow_and_update();
            ours.borrow_and_update();
            self.offer();
            self.report();
            self.show();
            tokio::select! {
                _ = theirs.changed() => {}
                _ = ours.changed() => {}
                () = sleep(LOOK) => {}
            }
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

    /// Shows in what condition the upstreams are that other nodes see, and what instances say about themselves.
    /// Programs that another node runs are its matter.
    fn report(&self) {
        let upstreams = self.gateway.upstreams();
        let offered = upstreams.iter().filter(|upstream| self.wanted.contains(upstream.id().as_str()));
        let conditions = offered.clone().filter_map(|upstream| {
            let (id, state) = (upstream.id().as_str().to_owned(), upstream.state());
            (state.phase != Phase::Active).then(|| (id, ConditionRecord::of(&state)))
        });
        let instances = offered.filter(|upstream| upstream.kind() == UpstreamKind::Instance);
        let instances = instances.filter_map(|upstream| {
            let about = Value::clone(&*upstream.described()?);
            (about.to_string().len() <= LONGEST_ABOUT).then(|| (upstream.id().as_str().to_owned(), about))
        });
        let conditions = conditions.take(MOST_CONDITIONS).collect();
        self.shared.report(conditions, instances.take(MOST_INSTANCES).collect());
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
            match self.joined.get(&id) {
                None => self.join(id),
                Some(upstream) => self.describe(&id, upstream),
            }
        }
    }

    /// The node may describe an instance only after it has claimed it, and again later.
    fn describe(&self, id: &str, upstream: &Upstream) {
        let instance = UpstreamKind::Instance.as_str();
        let Some(before) = upstream.described().filter(|about| about["kind"] == instance) else { return };
        if let Some(about) = self.shared.about_elsewhere(id).filter(|about| *about != *before) {
            self.gateway.describe(upstream, about);
        }
    }

    /// The ids that other nodes own, offer and can be asked for. Nothing as long as the store has not shown everything.
    fn theirs(&self) -> Option<BTreeSet<String>> {
        let now = self.shared.now();
        let state = self.shared.state();
        if !state.in_sync {
            return None;
        }
        if state.refusal.is_some() {
            return Some(BTreeSet::new());
        }
        let me = state.ownership.me();
        let owners = state.owners.iter().filter(|(_, owner)| {
            owner.is_exported && owner.member.node != me.node && state.is_alive(&owner.member, now)
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
