//! An upstream: its identity, how it is treated (`policy`), where it is in its life (`life`) and its connections
//! (`links`).

pub mod state;
pub mod policy;
mod life;
mod links;
mod counterpart;
mod lease;
mod pool;
mod questions;
mod supervise;
mod reconnect;
pub mod retry;
mod fetch;
mod follow_tasks;
mod flight;
mod changes;
pub(crate) mod samples;
pub mod health;
mod subscribe;
mod keyed_lock;
pub(crate) mod tracked_tasks;
pub(crate) mod task_owners;
pub(crate) mod task_reviews;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::join_all;
use serde_json::Value;
use toolyard_model::{ClientKey, Link, Scope};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{CallError, Reason, Revision};

use crate::catalog::Definitions;
use crate::ledger::{Meter, Tally};
use crate::plan::{
    AfterLoss, Connect, Pace, SamplingPlan, Sharing, StderrLine, Timeouts, UpstreamKind, UpstreamPlan,
};
use changes::Changes;
use flight::Flights;
use health::Health;
use life::Life;
use links::Links;
use policy::LivePolicy;
use samples::Samples;
use state::{Phase, State};

pub use counterpart::CounterpartStatus;
pub(crate) use flight::InFlight;
pub(crate) use follow_tasks::FollowedTasks;
pub(crate) use lease::Lease;
pub(crate) use links::Lane;
pub(crate) use pool::can_be_asked;
pub(crate) use subscribe::Subscribed;
pub(crate) use supervise::Outlets;

/// How long a link may take to end.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// One upstream. Shared by the catalog, the calls to it and its supervisor, which alone changes its phase.
pub struct Upstream {
    id: UpstreamId,
    name: Arc<str>,
    kind: UpstreamKind,
    /// Together with `sharing`: a change of it needs a new connection.
    fingerprint: String,
    sharing: Sharing,
    policy: ArcSwap<LivePolicy>,
    pub(crate) life: Life,
    pub(crate) links: Links,
    flights: Flights,
    /// Further facts about an instance.
    described: ArcSwapOption<Value>,
    tally: Tally,
    meter: Meter,
    /// Samples of its calls over the last minutes.
    pub(crate) samples: Samples,
    /// Changes of its definitions, the newest last.
    pub(crate) changes: Changes,
}

impl Upstream {
    pub(crate) fn new(
        plan: UpstreamPlan,
        pace: Pace,
        stored: Option<Arc<Definitions>>,
        scope: Scope,
    ) -> Arc<Self> {
        let policy = LivePolicy::new(&plan, pace);
        let UpstreamPlan { id, kind, connect, sharing, fingerprint, .. } = plan;
        let name: Arc<str> = id.as_str().into();
        Arc::new(Self {
            id,
            kind,
            fingerprint,
            sharing,
            policy: ArcSwap::from_pointee(policy),
            links: Links::new(sharing, scope.clone()),
            life: Life::new(name.clone(), stored, scope),
            name,
            flights: Flights::default(),
            described: ArcSwapOption::from(connect.about().map(Arc::new)),
            tally: Tally::default(),
            meter: Meter::default(),
            samples: Samples::default(),
            changes: Changes::default(),
        })
    }

    pub fn id(&self) -> &UpstreamId {
        &self.id
    }

    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub fn kind(&self) -> UpstreamKind {
        self.kind
    }

    pub fn state(&self) -> State {
        self.life.state()
    }

    /// The definitions of the upstream, as last read or stored.
    pub fn definitions(&self) -> Option<Arc<Definitions>> {
        self.life.definitions()
    }

    pub fn is_listed(&self) -> bool {
        self.life.is_listed()
    }

    /// The health of the upstream, as pings have shown it.
    pub fn health(&self) -> Health {
        self.life.health()
    }

    /// How often it was called, and how long that took.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How long its calls took.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The latest lines of the upstream's stderr, if it is a process.
    pub fn stderr(&self) -> Vec<StderrLine> {
        self.connector().stderr()
    }

    /// How many clients have a link of their own.
    pub fn own_links(&self) -> usize {
        self.links.own()
    }

    /// Checks at once whether the upstream responds.
    pub fn revalidate(&self) {
        self.life.revalidate();
    }

    /// There is a new hint that the upstream is running: it is connected at once.
    pub fn wake(&self) {
        self.life.wake();
    }

    /// How long calls may take, as the config sets it now.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.policy.load().own.timeouts
    }

    /// Whether rules may allow calls because of its annotations.
    pub(crate) fn is_trusted(&self) -> bool {
        self.policy.load().own.trusted
    }

    /// The model that answers its sampling requests for clients without one.
    pub(crate) fn sampling(&self) -> Option<Arc<SamplingPlan>> {
        self.policy.load().own.sampling.clone()
    }

    /// The current policy. Do not hold it over an `.await`, because a reload may replace it.
    fn policy(&self) -> Arc<LivePolicy> {
        self.policy.load_full()
    }

    fn pace(&self) -> Pace {
        self.policy.load().pace
    }

    /// Whether it is an app that has unregistered and not come back. It stays known for the errors of late calls.
    pub(crate) fn has_unregistered(&self) -> bool {
        self.state().phase == Phase::Dead && self.connector().after_loss() == AfterLoss::Gone
    }

    pub(crate) fn connector(&self) -> Arc<dyn Connect> {
        self.policy.load().connect.clone()
    }

    /// A plan that describes the current state of this upstream.
    pub(crate) fn plan(&self) -> UpstreamPlan {
        let policy = self.policy();
        UpstreamPlan {
            id: self.id.clone(),
            kind: self.kind,
            connect: policy.connect.clone(),
            sharing: self.sharing,
            fingerprint: self.fingerprint.clone(),
            policy: policy.own.clone(),
        }
    }

    /// Whether `plan` describes this upstream, whatever its policy is.
    pub(crate) fn is_as(&self, plan: &UpstreamPlan) -> bool {
        self.id == plan.id && self.fingerprint == plan.fingerprint && self.sharing == plan.sharing
    }

    /// Takes over the policy of `plan`, which describes this upstream. Returns whether anything changed.
    pub(crate) fn adopt(&self, plan: &UpstreamPlan, pace: Pace) -> bool {
        let before = self.policy.swap(Arc::new(LivePolicy::new(plan, pace)));
        self.life.signals.policy.notify_one();
        before.own != plan.policy
    }

    /// The revision that it spoke last, if that is certain.
    fn known_revision(&self) -> Option<Revision> {
        let greeting = &self.definitions()?.greeting;
        (!greeting.guessed).then_some(greeting.revision)
    }

    /// A live link. While it is being connected, waits for it, for a bounded time; while it cannot be reached, fails
    /// at once.
    pub(crate) async fn link(&self) -> Result<Arc<dyn Link>, CallError> {
        if let Some(link) = self.links.live() {
            return Ok(link);
        }
        let waited = tokio::time::timeout(self.pace().connect, self.awaited_link()).await;
        waited.unwrap_or_else(|_| Err(self.not_connected(&self.state())))
    }

    /// A live link, waited for as long as one is expected. An idle upstream is started.
    pub(super) async fn awaited_link(&self) -> Result<Arc<dyn Link>, CallError> {
        let mut state = self.life.state.subscribe();
        loop {
            let (phase, is_coming) = {
                let now = state.borrow_and_update();
                (now.phase, now.is_under_way())
            };
            if let Some(link) = self.links.live() {
                return Ok(link);
            }
            match phase {
                Phase::Idle => self.life.signals.wanted.notify_one(),
                // The link has just ended; the supervisor will set the next phase in a moment.
                Phase::Active => {}
                _ if is_coming => {}
                _ => return Err(self.not_connected(&self.state())),
            }
            if state.changed().await.is_err() {
                return Err(self.not_connected(&self.state()));
            }
        }
    }

    /// The error of a call that was not sent before its deadline, because it had to wait for a link.
    pub(crate) fn not_sent_in_time(&self) -> CallError {
        if let Some(error) = self.links.pool.is_full().then(|| pool::all_in_use(self)) {
            return error;
        }
        let state = self.state();
        let seconds =
            state.starting_since().and_then(|since| since.elapsed().ok()).map(|time| time.as_secs());
        let why = match seconds {
            Some(seconds) => {
                let what = format!("has been starting for {seconds} s, and the call was not sent to it");
                Reason::of_upstream(self.id.as_str(), what).with_hint("try again, or raise `timeout`")
            }
            None => self.why_unavailable(&state).or_hint("the gateway keeps trying"),
        };
        CallError::unavailable(why).at(&self.name)
    }

    fn not_connected(&self, state: &State) -> CallError {
        let hint = "the gateway keeps trying; the `yard` tool `upstreams` shows its state";
        CallError::unavailable(self.why_unavailable(state).or_hint(hint)).at(&self.name)
    }

    /// Why it cannot be called.
    pub(crate) fn why_unavailable(&self, state: &State) -> Reason {
        let reason = state.reason.clone().unwrap_or_else(|| "it is still starting".into());
        if reason.is_predicate() {
            return reason;
        }
        Reason::of_upstream(self.id.as_str(), "is not connected").caused_by(&reason)
    }

    /// Tries now instead of after the pause, if it is in one, and waits for the outcome.
    pub(crate) async fn try_now(&self) {
        let mut state = self.life.state.subscribe();
        let (phase, so_far) = {
            let now = state.borrow_and_update();
            (now.phase, now.history.total())
        };
        if !matches!(phase, Phase::Retrying | Phase::SignIn | Phase::Dead) {
            return;
        }
        self.revalidate();
        let is_decided = |state: &State| state.history.total() > so_far && !state.is_under_way();
        let _ = tokio::time::timeout(self.pace().connect, state.wait_for(is_decided)).await;
    }

    /// Makes the supervisor read the definitions again, on this link or another. Returns whether that was done in time.
    pub(crate) async fn renewed(&self) -> bool {
        let mut renewals = self.life.renewals.subscribe();
        self.life.outdated();
        let changed = tokio::time::timeout(self.pace().connect, renewals.changed()).await;
        changed.is_ok_and(|changed| changed.is_ok())
    }

    /// Makes the supervisor read the lists again soon, if the upstream is connected.
    pub(crate) fn read_again_later(&self) {
        if self.links.live().is_some() {
            self.life.signals.outdated.notify_one();
        }
    }

    /// Makes the supervisor read the lists again on the current link. Returns whether that was done in time.
    pub(crate) async fn read_again(&self) -> bool {
        let mut renewals = self.life.renewals.subscribe();
        self.life.signals.outdated.notify_one();
        let changed = tokio::time::timeout(self.pace().connect, renewals.changed()).await;
        changed.is_ok_and(|changed| changed.is_ok())
    }

    /// Records what else is known about it.
    pub(crate) fn describe(&self, about: Value) {
        self.described.store(Some(Arc::new(about)));
    }

    pub fn described(&self) -> Option<Arc<Value>> {
        self.described.load_full()
    }

    /// Whether it is an instance, here or at another node.
    pub(crate) fn is_instance(&self) -> bool {
        match self.kind() {
            UpstreamKind::Instance => true,
            UpstreamKind::Node => self.described().is_some_and(|about| about["kind"] == "instance"),
            UpstreamKind::Server | UpstreamKind::BuiltIn | UpstreamKind::App => false,
        }
    }

    /// The other names of an instance: the id that it chose itself, and its name.
    pub(crate) fn other_names(&self) -> Vec<String> {
        let described = self.described().filter(|_| self.kind() == UpstreamKind::Instance);
        let name = |key: &str| described.as_ref().and_then(|about| about[key].as_str().map(str::to_owned));
        ["id", "name"].into_iter().filter_map(name).collect()
    }

    /// Whether the gateway reconnects to it when the connection is lost.
    pub(crate) fn is_reached_for(&self) -> bool {
        matches!(self.connector().after_loss(), AfterLoss::TryAgain | AfterLoss::Left | AfterLoss::SignIn)
    }

    /// Starts its supervisor.
    pub(crate) fn start(self: &Arc<Self>, outlets: Outlets) {
        let _ = self.life.events.set(outlets.events.clone());
        self.life.scope.spawn(supervise::run(self.clone(), outlets));
    }

    /// Lets calls in flight finish, for a bounded time, and ends its links.
    pub(crate) async fn retire(self: Arc<Self>, at_most: Duration) {
        self.life.enter(Phase::Ended, Some("it is no longer there".into()));
        let is_drained = tokio::time::timeout(at_most, self.flights.drained()).await.is_ok();
        // From here on no call finds the link. A call that found it a moment ago is counted.
        let link = self.links.take_live();
        if is_drained {
            let _ = tokio::time::timeout(at_most, self.flights.drained()).await;
        }
        self.life.scope.cancel();
        let links = link.into_iter().chain(self.links.take_live()).chain(self.links.counterpart.take());
        let links = links.chain(self.links.pool.drain());
        let closing = join_all(links.map(|link| async move { link.close().await }));
        let _ = tokio::time::timeout(CLOSE_WAIT, closing).await;
    }

    /// A client connects to another upstream: its subscriptions and settings here end, but not its calls in flight.
    pub(crate) fn leave(&self, client: &ClientKey) {
        self.links.leave(client);
    }

    /// A client has disconnected: everything that is kept for it ends.
    pub(crate) fn forget(&self, client: &ClientKey) {
        self.links.forget(client);
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({})", self.id)
    }
}
