//! One moment of the catalog: every upstream's part, and the views over them, made when first looked at.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use toolyard_model::{Origin, View};
use toolyard_proto::name::UpstreamId;

use super::Definitions;
use super::view::{Shape, ViewCatalog};
use crate::hub::Hub;
use crate::pipeline::StepRules;
use crate::plan::{ProfilePlan, UpstreamKind};
use crate::upstream::Upstream;

/// What one upstream brings into a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) upstream: Arc<Upstream>,
    /// What it is called beside its id, which may change while it is there.
    pub(crate) names: Vec<String>,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) listed: bool,
    /// Offered by the gateway itself.
    pub(crate) built_in: bool,
}

/// How names are shown and which views there are.
#[derive(Debug)]
pub(crate) struct Views {
    pub(crate) names: toolyard_proto::name::NameStyle,
    pub(crate) transparent: bool,
    pub(crate) profiles: Vec<ProfilePlan>,
    /// All upstreams, also those that have said nothing yet.
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// Which instance each session of the hub view looks at; the same for as long as the gateway lives.
    pub(crate) hub: Arc<Hub>,
    /// Which steps the calls of each entry pass.
    pub(crate) steps: Arc<StepRules>,
}

/// A view that is made when somebody first looks.
type Slot = (Shape, OnceLock<ViewCatalog>);

/// An immutable catalog.
#[derive(Debug)]
pub struct Snapshot {
    parts: Vec<Part>,
    views: HashMap<View, Slot, RandomState>,
    /// The hub view of sessions that are connected, by instance.
    hubs: HashMap<UpstreamId, Slot, RandomState>,
    rules: Arc<Views>,
    /// Whether every upstream has been heard of; until then lists are good for a moment only.
    pub(crate) settled: bool,
}

impl Snapshot {
    pub(crate) fn build(rules: Arc<Views>, parts: Vec<Part>, settled: bool) -> Self {
        let (mut views, mut hubs) = (HashMap::default(), HashMap::default());
        let slot = |shape| (shape, OnceLock::new());
        views.insert(View::Everything, slot(rules.whole_shape()));
        views.insert(View::Hub, slot(Shape::Hub(None)));
        for upstream in &rules.upstreams {
            views.insert(View::Upstream(upstream.name().clone()), slot(Shape::Alone(upstream.clone())));
            if upstream.kind() == UpstreamKind::Instance {
                hubs.insert(upstream.id().clone(), slot(Shape::Hub(Some(upstream.clone()))));
            }
        }
        for (at, profile) in rules.profiles.iter().enumerate() {
            views.insert(View::Profile(profile.name.as_str().into()), slot(rules.profile_shape(at)));
        }
        Self { parts, views, hubs, rules, settled }
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// What a client of this view sees; `None` where there is no such view.
    pub(crate) fn view(&self, view: &View) -> Option<&ViewCatalog> {
        self.views.get(view).map(|slot| self.made(slot))
    }

    /// What this client sees. A session of the hub view sees the instance that it is connected to as well.
    pub(crate) fn seen_by(&self, origin: &Origin) -> Option<&ViewCatalog> {
        let connected = (origin.view == View::Hub).then(|| self.rules.hub.target(&origin.client)).flatten();
        match connected.and_then(|instance| self.hubs.get(&instance)) {
            Some(slot) => Some(self.made(slot)),
            None => self.view(&origin.view),
        }
    }

    /// Whether it is connected to an instance that has not been found again, or that this snapshot has no word of.
    pub(crate) fn awaits_instance(&self, origin: &Origin) -> bool {
        let hub = &self.rules.hub;
        let target = (origin.view == View::Hub).then(|| hub.target(&origin.client)).flatten();
        target.is_some_and(|id| match self.find(&id) {
            Some(_) => self.parts.iter().all(|part| *part.upstream.id() != id),
            None => hub.is_awaited(&origin.client),
        })
    }

    /// Whether an upstream that a client has to do with has come, and this snapshot has no word of it yet.
    pub(crate) fn awaits(&self, id: &UpstreamId, origin: &Origin) -> bool {
        let is_new = self.parts.iter().all(|part| part.upstream.id() != id);
        let is_meant =
            || origin.view != View::Hub || self.rules.hub.target(&origin.client).as_ref() == Some(id);
        is_new && is_meant()
    }

    fn made<'a>(&'a self, (shape, catalog): &'a Slot) -> &'a ViewCatalog {
        catalog.get_or_init(|| ViewCatalog::build(self, shape))
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
    pub(crate) fn offers(&self, view: &View) -> bool {
        match view {
            View::Everything | View::Hub => true,
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
