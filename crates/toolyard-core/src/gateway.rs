//! The gateway: everything behind the one endpoint, as a [`Handler`](toolyard_model::Handler).

mod handler;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, watch};
use toolyard_model::Scope;

use crate::api::{ApprovalsElsewhere, Controls, Routes};
use crate::approvals::Approvals;
use crate::catalog::{Catalog, Definitions, Store, Views};
use crate::discovery::Sightings;
use crate::greet::NAME;
use crate::hub::Hub;
use crate::keys::StateKeys;
use crate::listen::Listeners;
use crate::pins::Pins;
use crate::pipeline::{Chains, Common, StepRules};
use crate::plan::{Pace, Plan, UpstreamPlan};
use crate::session_hooks::Activity;
use crate::sessions::OpenSessions;
use crate::tool_switch::ToolSwitches;
use crate::upstream::{Outlets, Upstream, samples};
use crate::{bridge, levels, sleep_watch, yard};

/// How long calls in flight of an upstream that goes may take to finish.
pub(crate) const DRAIN: Duration = Duration::from_mins(5);

/// A running gateway. Cheap to clone; it lives until [`Gateway::end`].
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) scope: Scope,
    pub(crate) common: Arc<Common>,
    pub(crate) outlets: Outlets,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) approvals_elsewhere: OnceLock<Arc<dyn ApprovalsElsewhere>>,
    pace: Pace,
    sightings: Sightings,
    /// Held while the set of upstreams changes.
    changing: Mutex<()>,
    pub(crate) controls: OnceLock<Controls>,
    pub(crate) routes: Routes,
    pub(crate) sessions: OpenSessions,
    pub(crate) started: Instant,
    pub(crate) activity: Activity,
}

/// The changes that a reload made, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
}

impl Gateway {
    /// Starts every upstream, each on its own, and is ready at once.
    pub fn start(plan: Plan, scope: &Scope) -> Self {
        let scope = scope.child();
        let store = plan.state_dir.as_deref().and_then(Store::open).map(Arc::new);
        let listeners = Arc::new(Listeners::default());
        let (changed, news) = mpsc::channel(1);
        let origin = bridge::own_origin(NAME, env!("CARGO_PKG_VERSION"));
        let starts = Arc::new(Semaphore::new(plan.pace.starts_at_once));
        let common = Arc::new(Common::new(plan.sinks, plan.disabled));
        let events = common.events.clone();
        let pins = plan.state_dir.as_deref().map(Pins::new);
        let pins = pins.map(|pins| Arc::new(pins.reporting_to(events.clone())));
        let outlets = Outlets {
            changed,
            listeners: listeners.clone(),
            store,
            origin,
            starts,
            events: events.clone(),
            pins,
            switches: Arc::new(ToolSwitches::open(plan.state_dir.as_deref())),
        };
        let keys = Arc::new(StateKeys::new(plan.state_dir.as_deref()));
        let approvals = Approvals::open(plan.state_dir.as_deref(), keys.clone());
        let approvals = Arc::new(approvals.reporting_to(events.clone()));
        let (yard_plan, yard_definitions, yard) = yard::plan();
        let chains = Arc::new(Chains::new(plan.steps, plan.hook_runtime, approvals.clone()));
        let steps = Arc::new(StepRules::new(plan.calls, chains.clone()));
        let make = |upstream, stored| Upstream::new(upstream, plan.pace, stored, scope.child());
        let mut upstreams = vec![make(yard_plan, Some(yard_definitions))];
        upstreams.extend(plan.upstreams.into_iter().map(|upstream| {
            let stored = outlets.stored(&upstream);
            make(upstream, stored)
        }));
        let rules = Views {
            names: plan.names,
            transparent: plan.transparent,
            profiles: plan.profiles,
            lean: plan.lean,
            upstreams: upstreams.clone(),
            hub: Arc::new(Hub::new(keys)),
            steps,
        };
        let catalog = Arc::new(Catalog::new(rules, plan.pace, listeners.clone(), events));
        listeners.attach(&catalog);
        chains.attach(&catalog);
        yard.attach(&catalog, &listeners, &common);
        for upstream in upstreams {
            upstream.start(outlets.clone());
        }
        scope.spawn(catalog.clone().keep(news));
        scope.spawn(samples::keep(catalog.clone()));
        scope.spawn(sleep_watch::watch(plan.wall, catalog.clone()));
        let shared = Shared {
            catalog,
            listeners,
            scope,
            common,
            outlets,
            approvals,
            approvals_elsewhere: OnceLock::new(),
            pace: plan.pace,
            sightings: Sightings::default(),
            changing: Mutex::new(()),
            controls: OnceLock::new(),
            routes: Routes::default(),
            sessions: OpenSessions::default(),
            started: Instant::now(),
            activity: Activity::default(),
        };
        let gateway = Self { shared: Arc::new(shared) };
        gateway.scope().spawn(gateway.clone().watch_sessions());
        gateway
    }

    /// Applies another plan without dropping a call: unchanged upstreams stay as they are,
    /// changed ones get a new link while the old one drains, and removed ones drain and end.
    pub fn reload(&self, plan: Plan) -> Reloaded {
        let shared = &self.shared;
        let _one_at_a_time = self.changing();
        *shared.common.disabled.lock() = plan.disabled;
        let old = shared.catalog.rules();
        let mut done = Reloaded::default();
        let mut upstreams: Vec<Arc<Upstream>> = old.upstreams.iter().take(1).cloned().collect();
        let mut fresh = Vec::new();
        let mut off = shared.common.switched_off();
        off.retain(|id, _| plan.upstreams.iter().any(|wanted| wanted.id == *id));
        for wanted in plan.upstreams {
            if let Some(plan) = off.get_mut(&wanted.id) {
                *plan = wanted;
                continue;
            }
            let before = old.upstreams.iter().skip(1).find(|upstream| *upstream.id() == wanted.id);
            let before = before.filter(|upstream| !upstream.kind().is_dynamic());
            if let Some(same) = before.filter(|before| before.is_as(&wanted)) {
                if same.adopt(&wanted, plan.pace) {
                    same.review_again(&shared.outlets);
                    done.changed.push(wanted.id.to_string());
                }
                upstreams.push(same.clone());
                continue;
            }
            let names = if before.is_some() { &mut done.changed } else { &mut done.added };
            names.push(wanted.id.to_string());
            // Until the new one has sent its definitions, those of the old one are the best guess.
            let known =
                shared.outlets.stored(&wanted).or_else(|| before?.definitions().map(|old| old.borrowed()));
            fresh.push(self.make(wanted, known));
            upstreams.extend(fresh.last().cloned());
        }
        drop(off);
        let is_free =
            |guest: &&Arc<Upstream>| upstreams.iter().all(|other| other.id().fold() != guest.id().fold());
        let dynamic = old.upstreams.iter().filter(|old| old.kind().is_dynamic()).filter(is_free).cloned();
        let dynamic: Vec<Arc<Upstream>> = dynamic.collect();
        upstreams.extend(dynamic);
        let kept = |upstream: &&Arc<Upstream>| upstreams.iter().any(|kept| Arc::ptr_eq(kept, upstream));
        let retired: Vec<Arc<Upstream>> = old.upstreams.iter().filter(|old| !kept(old)).cloned().collect();
        let is_there = |id: &str| upstreams.iter().any(|upstream| upstream.id().as_str() == id);
        done.removed = retired.iter().map(|old| old.id().to_string()).filter(|id| !is_there(id)).collect();
        shared.catalog.replace(Views {
            names: plan.names,
            transparent: plan.transparent,
            profiles: plan.profiles,
            lean: plan.lean,
            upstreams,
            hub: old.hub.clone(),
            steps: old.steps.replaced(plan.calls),
        });
        let successor = |old: &Upstream| fresh.iter().find(|fresh| fresh.id() == old.id());
        for upstream in &retired {
            if let Some(successor) = successor(upstream) {
                upstream.life.hand_over(successor);
            }
        }
        for upstream in &fresh {
            upstream.start(shared.outlets.clone());
        }
        for upstream in retired {
            if let Some(successor) = successor(&upstream) {
                shared.listeners.move_over(&upstream, successor, &shared.scope);
            }
            shared.scope.spawn(upstream.retire(DRAIN));
        }
        done
    }

    /// Sets what else is known about an instance. Profiles may refer to it by its name, so a new name shows at once.
    pub fn describe(&self, instance: &Upstream, about: Value) {
        let before = instance.other_names();
        instance.describe(about);
        if instance.other_names() != before {
            self.shared.outlets.announce();
        }
    }

    /// The upstreams that discovery has found.
    pub fn sightings(&self) -> &Sightings {
        &self.shared.sightings
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn changing(&self) -> MutexGuard<'_, ()> {
        self.shared.changing.lock()
    }

    pub(crate) fn rules(&self) -> Arc<Views> {
        self.shared.catalog.rules()
    }

    pub(crate) fn common(&self) -> &Common {
        &self.shared.common
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.shared.scope
    }

    pub(crate) fn make(&self, plan: UpstreamPlan, known: Option<Arc<Definitions>>) -> Arc<Upstream> {
        let shared = &self.shared;
        Upstream::new(plan, shared.pace, known, shared.scope.child())
    }

    /// Makes an upstream with the definitions that were stored for it.
    pub(crate) fn make_stored(&self, plan: UpstreamPlan) -> Arc<Upstream> {
        let known = self.shared.outlets.stored(&plan);
        self.make(plan, known)
    }

    pub(crate) fn start_one(&self, upstream: &Arc<Upstream>) {
        upstream.start(self.shared.outlets.clone());
        let hub = &self.rules().hub;
        for origin in self.shared.listeners.origins_of(&hub.found(upstream.id())) {
            levels::catch_up(upstream, &origin, hub.clone());
        }
        self.shared.listeners.came_back(upstream, &self.shared.scope);
    }

    /// Applies the same rules to other upstreams.
    pub(crate) fn adopt(&self, old: &Views, upstreams: Vec<Arc<Upstream>>) {
        let (profiles, lean) = (old.profiles.clone(), old.lean.clone());
        let (hub, steps) = (old.hub.clone(), old.steps.clone());
        self.shared.catalog.replace(Views { profiles, lean, upstreams, hub, steps, ..*old });
    }

    pub(crate) fn move_listeners(&self, from: &Arc<Upstream>, to: &Arc<Upstream>) {
        self.shared.listeners.move_over(from, to, &self.shared.scope);
    }

    /// Ends every upstream, bounded in time.
    pub async fn end(&self) {
        let rules = self.shared.catalog.rules();
        let all = rules.upstreams.iter().map(|upstream| upstream.clone().retire(Duration::ZERO));
        futures_util::future::join_all(all).await;
        self.shared.scope.cancel();
    }

    /// The upstreams in order, for reports.
    pub fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.shared.catalog.rules().upstreams.clone()
    }

    /// A count that changes whenever an upstream comes or goes, or offers something else.
    pub fn catalog_changes(&self) -> watch::Receiver<u64> {
        self.shared.catalog.changes()
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("upstreams", &self.upstreams()).finish_non_exhaustive()
    }
}
