//! One moment of the catalog: every upstream's part, and the views over them. The next snapshot is made from the one
//! before it and shares everything that has not changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use toolyard_model::{Origin, View};
use toolyard_proto::name::UpstreamId;

use super::pages::Pages;
use super::part::Part;
use super::view::{HubEntries, Shape, ViewCatalog, ViewParts};
use crate::hub::Hub;
use crate::pipeline::StepRules;
use crate::plan::{ProfilePlan, UpstreamKind};
use crate::settings::Pattern;
use crate::upstream::Upstream;

/// How names are shown and which views there are.
#[derive(Debug)]
pub(crate) struct Views {
    pub(crate) names: toolyard_proto::name::NameStyle,
    pub(crate) transparent: bool,
    pub(crate) profiles: Vec<ProfilePlan>,
    /// Patterns over the canonical ids of the tools that the lean view lists.
    pub(crate) lean: Vec<Pattern>,
    /// All upstreams, also those that have sent nothing yet.
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// Which instance each session of the hub view is connected to. One table for the lifetime of the gateway.
    pub(crate) hub: Arc<Hub>,
    /// Which steps the calls of each entry pass.
    pub(crate) steps: Arc<StepRules>,
}

/// An immutable catalog.
#[derive(Debug)]
pub struct Snapshot {
    parts: Vec<Arc<Part>>,
    views: HashMap<View, Arc<ViewCatalog>, RandomState>,
    /// The hub view of sessions that are connected, by instance.
    hubs: HashMap<UpstreamId, Arc<ViewCatalog>, RandomState>,
    hub: Option<Arc<HubEntries>>,
    rules: Arc<Views>,
    /// Whether every upstream has answered or failed; until then lists are valid for a moment only.
    pub(crate) settled: bool,
}

impl Snapshot {
    /// The catalog as it is now, made from the one before.
    pub(super) fn now(rules: Arc<Views>, before: Option<&Self>, pages: &Arc<Pages>) -> Self {
        let before = before.filter(|before| before.rules.names == rules.names);
        let known: HashMap<*const Upstream, &Arc<Part>> = before
            .iter()
            .flat_map(|before| &before.parts)
            .map(|part| (Arc::as_ptr(&part.upstream), part))
            .collect();
        let part = |upstream: &Arc<Upstream>| {
            Part::now(upstream, rules.names, known.get(&Arc::as_ptr(upstream)).copied())
        };
        let settled = rules.upstreams.iter().all(|one| one.life.is_settled() || one.definitions().is_some());
        let parts: Vec<Arc<Part>> = rules.upstreams.iter().filter_map(part).collect();
        let same_rules = before.is_some_and(|before| before.rules.shows_as(&rules));
        let hub = before.filter(|_| same_rules).and_then(|before| before.hub.as_ref());
        let hub = HubEntries::now(&rules, &parts, hub);
        let view_parts =
            ViewParts { rules: &rules, parts: &parts, settled, hub: hub.as_ref(), pages, same_rules };
        let mut hubs = HashMap::default();
        let known = |view: &View| before.and_then(|before| before.views.get(view));
        let everything = view_parts.view(&rules.whole_shape(), known(&View::Everything));
        let lean = match rules.named_lean() {
            Some(upstream) => view_parts.view(&Shape::Alone(upstream.clone()), known(&View::Lean)),
            None => view_parts.lean_of_everything(&everything, known(&View::Lean)),
        };
        let mut views: HashMap<View, Arc<ViewCatalog>, RandomState> =
            HashMap::from_iter([(View::Everything, everything), (View::Lean, lean)]);
        for (at, profile) in rules.profiles.iter().enumerate() {
            let view = View::Profile(profile.name.as_str().into());
            let made = view_parts.profile(&rules.profile_shape(at), profile, known(&view));
            views.insert(view, made);
        }
        let mut add = |view: View, shape: &Shape| {
            let made = view_parts.view(shape, known(&view));
            views.insert(view, made);
        };
        add(View::Hub, &Shape::Hub(None));
        for upstream in &rules.upstreams {
            add(View::Upstream(upstream.name().clone()), &Shape::Alone(upstream.clone()));
            if upstream.is_instance() {
                let known = before.and_then(|before| before.hubs.get(upstream.id()));
                hubs.insert(
                    upstream.id().clone(),
                    view_parts.view(&Shape::Hub(Some(upstream.clone())), known),
                );
            }
        }
        Self { parts, views, hubs, hub, rules, settled }
    }

    /// Whether `next` shows exactly the same as this snapshot.
    pub(super) fn is_as(&self, next: &Self) -> bool {
        let same = |one: &[Arc<Part>], other: &[Arc<Part>]| {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        Arc::ptr_eq(&self.rules, &next.rules)
            && self.settled == next.settled
            && same(&self.parts, &next.parts)
    }

    /// The ids of all its views.
    pub(super) fn view_ids(&self) -> HashSet<u64> {
        self.views.values().chain(self.hubs.values()).map(|view| view.id).collect()
    }

    pub(crate) fn parts(&self) -> &[Arc<Part>] {
        &self.parts
    }

    /// The catalog of this view; `None` if there is no such view.
    pub(crate) fn view(&self, view: &View) -> Option<&Arc<ViewCatalog>> {
        self.views.get(view)
    }

    /// The catalog that this client sees. A session of the hub view sees the instance that it is connected to as well.
    pub(crate) fn seen_by(&self, origin: &Origin) -> Option<&Arc<ViewCatalog>> {
        let connected = (origin.view == View::Hub).then(|| self.rules.hub.target(&origin.client)).flatten();
        connected.and_then(|instance| self.hubs.get(&instance)).or_else(|| self.view(&origin.view))
    }

    /// Whether an upstream that concerns this client has been added, and this snapshot does not have it yet.
    pub(crate) fn awaits(&self, id: &UpstreamId, origin: &Origin) -> bool {
        let is_new = self.parts.iter().all(|part| part.upstream.id() != id);
        let is_meant =
            || origin.view != View::Hub || self.rules.hub.target(&origin.client).as_ref() == Some(id);
        is_new && is_meant()
    }

    /// The upstream of this id, if the rules know it.
    pub(crate) fn find(&self, id: &UpstreamId) -> Option<&Arc<Upstream>> {
        self.rules.upstreams.iter().find(|upstream| upstream.id() == id)
    }

    pub(crate) fn rules(&self) -> &Views {
        &self.rules
    }
}

impl Views {
    /// Whether these rules and `others` differ at most in their upstreams.
    fn shows_as(&self, others: &Self) -> bool {
        self.names == others.names
            && self.transparent == others.transparent
            && self.profiles == others.profiles
            && self.lean == others.lean
            && Arc::ptr_eq(&self.steps, &others.steps)
    }

    pub(crate) fn offers(&self, view: &View) -> bool {
        match view {
            View::Everything | View::Hub | View::Lean => true,
            View::Upstream(id) => self.upstreams.iter().any(|upstream| upstream.name() == id),
            View::Profile(name) => self.profiles.iter().any(|profile| *profile.name == **name),
        }
    }

    /// The upstreams of the configuration; `yard` and the packs are ours, apps and instances come and go.
    fn configured(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.iter().filter(|upstream| upstream.kind() == UpstreamKind::Server)
    }

    fn whole_shape(&self) -> Shape {
        let mut configured = self.configured();
        match (configured.next(), configured.next()) {
            (Some(only), None) if self.transparent => Shape::Alone(only.clone()),
            _ => Shape::Many { profile: None },
        }
    }

    fn profile_shape(&self, at: usize) -> Shape {
        let profile = &self.profiles[at];
        let mut inside = self
            .configured()
            .filter(|upstream| profile.includes_upstream(upstream.kind(), upstream.id().as_str(), &[]));
        match (inside.next(), inside.next()) {
            (Some(only), None) if profile.transparent => {
                Shape::Filtered { upstream: only.clone(), profile: at }
            }
            _ => Shape::Many { profile: Some(at) },
        }
    }
}
