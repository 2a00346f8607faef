//! Whoever offers tools: its state, its link while it is there, and what it said it offers.

pub mod state;
mod reconnect;
mod fetch;
mod flight;
pub mod health;
pub(crate) mod tracked_tasks;
mod lease;
pub(crate) mod task_owners;
mod pool;
pub mod retry;
mod subscribe;
mod supervise;
mod keyed_lock;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use toolyard_model::{BoxFuture, ClientKey, Link, Scope};
use toolyard_proto::modern::LogLevel;
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{CallError, Revision};

use crate::catalog::Definitions;
use crate::ledger::Tally;
use crate::pipeline::{Chain, Common, chain};
use crate::plan::{AfterLoss, Pace, UpstreamKind, UpstreamPlan};
use health::Health;
use state::{Phase, State};

pub(crate) use lease::Lease;
pub(crate) use subscribe::Subscribed;
pub(crate) use supervise::Outlets;

/// How long a link may take to end.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// One upstream. Shared by the catalog, the calls to it and its supervisor, which alone changes its state.
pub struct Upstream {
    plan: UpstreamPlan,
    name: Arc<str>,
    pace: Pace,
    chain: Chain,
    /// Read on every call, so it is a pointer swap and not a lock.
    live: ArcSwapOption<Live>,
    definitions: ArcSwapOption<Definitions>,
    state: watch::Sender<State>,
    /// Whether its entries are listed: false once it has been lost for longer than the grace.
    listed: AtomicBool,
    suspect: Notify,
    /// It may be gone, though nothing has gone wrong.
    doubted: Notify,
    /// A call was not answered in time, and nothing was heard since.
    unanswered: AtomicBool,
    /// There was a new sign of life.
    woken: Notify,
    outdated: Notify,
    /// How often it was asked what it offers, and has told.
    renewals: watch::Sender<u64>,
    levels: Mutex<HashMap<ClientKey, LogLevel>>,
    subscriptions: subscribe::Subscriptions,
    pool: pool::Pool,
    /// Links of the pool on their way to whoever listens to them.
    opened: (mpsc::Sender<pool::Opened>, tokio::sync::Mutex<mpsc::Receiver<pool::Opened>>),
    tracked_tasks: tracked_tasks::TrackedTasks,
    task_owners: task_owners::TaskOwners,
    keyed_lock: keyed_lock::KeyedLock,
    /// Its supervisor and all that it keeps running.
    life: Scope,
    /// Calls whose answers have not ended. Touched by every call, so it is no lock.
    in_flight: AtomicUsize,
    /// How many bytes they hold.
    holding: AtomicUsize,
    drained: Notify,
    /// Whoever has its name after it.
    successor: OnceLock<Arc<Upstream>>,
    /// What else is known of an instance, as it is told.
    described: ArcSwapOption<Value>,
    health: Mutex<Health>,
    /// When a call last began or ended, in seconds since 1970; zero for never.
    active_at: AtomicU64,
    tally: Tally,
}

struct Live {
    link: Arc<dyn Link>,
}

impl Upstream {
    pub(crate) fn new(
        plan: UpstreamPlan,
        pace: Pace,
        common: &Arc<Common>,
        stored: Option<Arc<Definitions>>,
        life: Scope,
    ) -> Arc<Self> {
        let (open, opened) = mpsc::channel(16);
        Arc::new(Self {
            name: plan.id.as_str().into(),
            chain: chain(plan.timeouts, common),
            pace,
            live: ArcSwapOption::empty(),
            listed: AtomicBool::new(stored.is_some()),
            definitions: ArcSwapOption::new(stored),
            state: watch::Sender::new(State::new(SystemTime::now())),
            suspect: Notify::new(),
            doubted: Notify::new(),
            unanswered: AtomicBool::new(false),
            woken: Notify::new(),
            outdated: Notify::new(),
            renewals: watch::Sender::new(0),
            levels: Mutex::default(),
            subscriptions: subscribe::Subscriptions::default(),
            pool: pool::Pool::new(plan.sharing),
            opened: (open, tokio::sync::Mutex::new(opened)),
            tracked_tasks: tracked_tasks::TrackedTasks::default(),
            task_owners: task_owners::TaskOwners::default(),
            keyed_lock: keyed_lock::KeyedLock::default(),
            life,
            in_flight: AtomicUsize::new(0),
            holding: AtomicUsize::new(0),
            drained: Notify::new(),
            successor: OnceLock::new(),
            described: ArcSwapOption::from(plan.connect.about().map(Arc::new)),
            health: Mutex::default(),
            active_at: AtomicU64::new(0),
            tally: Tally::default(),
            plan,
        })
    }

    pub fn id(&self) -> &UpstreamId {
        &self.plan.id
    }

    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub fn kind(&self) -> UpstreamKind {
        self.plan.kind
    }

    pub(crate) fn chain(&self) -> Chain {
        self.chain.clone()
    }

    /// What it offers, as far as we know.
    pub fn definitions(&self) -> Option<Arc<Definitions>> {
        self.definitions.load_full()
    }

    /// The revision it spoke the last time, if that is certain.
    fn known_revision(&self) -> Option<Revision> {
        let greeting = &self.definitions.load_full()?.greeting;
        (!greeting.guessed).then_some(greeting.revision)
    }

    pub fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// The link if there is one right now.
    pub(crate) fn live_link(&self) -> Option<Arc<dyn Link>> {
        self.live.load().as_ref().map(|live| live.link.clone())
    }

    /// A live link. While it is being connected, waits for it; while it cannot be reached, says why at once.
    pub(crate) async fn link(&self) -> Result<Arc<dyn Link>, CallError> {
        if let Some(link) = self.live_link() {
            return Ok(link);
        }
        let mut state = self.state.subscribe();
        let waited = tokio::time::timeout(self.pace.connect, state.wait_for(|state| !state.is_under_way()));
        let state = match waited.await {
            Ok(Ok(state)) => state.clone(),
            _ => self.state(),
        };
        self.live_link().ok_or_else(|| self.not_connected(&state))
    }

    fn not_connected(&self, state: &State) -> CallError {
        let why = self.why_not(state);
        CallError::unavailable(format!(
            "{why}; `yard` tool `upstreams` shows its state, and it is tried again by itself"
        ))
        .at(&self.name)
    }

    /// Why it cannot be called, in a sentence that names it once.
    pub(crate) fn why_not(&self, state: &State) -> String {
        let reason = state.reason.as_deref().unwrap_or("it is still starting");
        let named = format!("upstream `{}` ", self.plan.id);
        if reason.starts_with(&named) {
            reason.to_owned()
        } else {
            format!("{named}is not connected: {reason}")
        }
    }

    /// Something went wrong on its link: the supervisor looks whether it is still there.
    pub(crate) fn suspect(&self) {
        self.suspect.notify_one();
    }

    /// Looks at once whether it is there: one that is connected is asked, one that is not is tried again.
    pub fn revalidate(&self) {
        self.doubted.notify_one();
        if self.state.borrow().phase != Phase::Active {
            self.wake();
        }
    }

    /// There is a new sign of life: whatever it was waiting for, it is tried at once.
    pub fn wake(&self) {
        self.woken.notify_one();
    }

    /// Tries now instead of after the pause, where it is in one, and waits for the outcome.
    pub(crate) async fn try_now(&self) {
        let mut state = self.state.subscribe();
        let (phase, so_far) = {
            let now = state.borrow_and_update();
            (now.phase, now.history.total())
        };
        if !matches!(phase, Phase::Retrying | Phase::Dead) {
            return;
        }
        self.revalidate();
        let is_decided = |state: &State| state.history.total() > so_far && !state.is_under_way();
        let _ = tokio::time::timeout(self.pace.connect, state.wait_for(is_decided)).await;
    }

    /// Whether the first attempt to learn what it offers is over.
    pub(crate) fn is_settled(&self) -> bool {
        self.state.borrow().settled
    }

    /// Does something that nobody waits for.
    pub(crate) fn later(&self, errand: BoxFuture<()>) {
        self.life.spawn(errand);
    }

    pub(crate) fn tracked_tasks(&self) -> &tracked_tasks::TrackedTasks {
        &self.tracked_tasks
    }

    pub(crate) fn task_owners(&self) -> &task_owners::TaskOwners {
        &self.task_owners
    }

    /// What we know of it no longer fits: the supervisor asks again, and looks whether it is still there.
    pub(crate) fn outdated(&self) {
        self.outdated.notify_one();
        self.suspect();
    }

    /// The same, and waits until it has told anew what it offers, on this link or another; whether it has, in time.
    pub(crate) async fn renewed(&self) -> bool {
        let mut told = self.renewals.subscribe();
        self.outdated();
        tokio::time::timeout(self.pace.connect, told.changed()).await.is_ok_and(|told| told.is_ok())
    }

    /// Waits until its life has come to a phase.
    pub(crate) async fn reaches(&self, is_it: impl Fn(Phase) -> bool) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| is_it(state.phase)).await;
    }

    /// Waits until there are definitions or the first attempt to get them has failed.
    pub(crate) async fn settled(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| state.settled).await;
    }

    /// The least grave level that any client wants, after `client` has chosen `level`.
    pub(crate) fn want_level(&self, client: &ClientKey, level: Option<LogLevel>) -> Option<LogLevel> {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        match level {
            Some(level) => levels.insert(client.clone(), level),
            None => levels.remove(client),
        };
        levels.values().min().copied()
    }

    /// The least grave level that any client has chosen.
    pub(crate) fn least_level(&self) -> Option<LogLevel> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner).values().min().copied()
    }

    /// How often it was called, and how long that took.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What asking it has shown.
    pub fn health(&self) -> Health {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what else is known of it.
    pub(crate) fn describe(&self, about: Value) {
        self.described.store(Some(Arc::new(about)));
    }

    pub(crate) fn described(&self) -> Option<Arc<Value>> {
        self.described.load_full()
    }

    /// What an instance is called beside its id: the id that it gave itself, and its name.
    pub(crate) fn other_names(&self) -> Vec<String> {
        let described = self.described().filter(|_| self.kind() == UpstreamKind::Instance);
        let name = |key: &str| described.as_ref().and_then(|about| about[key].as_str().map(str::to_owned));
        ["id", "name"].into_iter().filter_map(name).collect()
    }

    /// Starts its supervisor.
    pub(crate) fn start(self: &Arc<Self>, outlets: Outlets) {
        self.life.spawn(supervise::run(self.clone(), outlets));
    }

    /// How many calls are under way.
    pub fn calls(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// How many clients have a link of their own to it.
    pub fn own_links(&self) -> usize {
        self.pool.len()
    }

    /// Whether a call is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls() > 0
    }

    /// Whether it may be silent because of a call that it works on. Once it has let a call go unanswered, that
    /// is no excuse until it is heard again.
    fn is_working(&self) -> bool {
        self.is_busy() && !self.unanswered.load(Ordering::Acquire)
    }

    /// A call to it was given up.
    pub(crate) fn left_unanswered(&self) {
        self.unanswered.store(true, Ordering::Release);
    }

    /// It has answered something.
    pub(crate) fn heard(&self) {
        if self.unanswered.load(Ordering::Relaxed) {
            self.unanswered.store(false, Ordering::Release);
        }
    }

    /// Whether it only finishes what is under way.
    pub(crate) fn is_retired(&self) -> bool {
        self.state.borrow().phase == Phase::Ended
    }

    /// Whether `plan` asks for just this upstream.
    pub(crate) fn is_as(&self, plan: &UpstreamPlan) -> bool {
        let own = &self.plan;
        own.id == plan.id
            && own.fingerprint == plan.fingerprint
            && own.timeouts == plan.timeouts
            && own.roots == plan.roots
            && own.sharing == plan.sharing
            && own.pinged == plan.pinged
    }

    /// Whether it is tried again by itself when it is lost.
    pub(crate) fn is_reached_for(&self) -> bool {
        matches!(self.plan.connect.after_loss(), AfterLoss::TryAgain | AfterLoss::Left)
    }

    /// Calls that it does not take any more are for `successor`; to be said before it retires.
    pub(crate) fn hand_over(&self, successor: &Arc<Self>) {
        // Nobody has two.
        let _ = self.successor.set(successor.clone());
    }

    pub(crate) fn successor(&self) -> Option<Arc<Self>> {
        self.successor.get().cloned()
    }

    /// Lets calls in flight finish, a bounded time, and ends its links.
    pub(crate) async fn retire(self: Arc<Self>, at_most: Duration) {
        self.enter(Phase::Ended, Some("it is no longer there".into()));
        let is_drained = tokio::time::timeout(at_most, self.idle()).await.is_ok();
        // From here on nobody finds the link. Whoever found it a moment ago is counted.
        let link = self.live.swap(None).map(|live| live.link.clone());
        if is_drained {
            let _ = tokio::time::timeout(at_most, self.idle()).await;
        }
        self.life.cancel();
        let now = self.live.swap(None).map(|live| live.link.clone());
        let links = link.into_iter().chain(now).chain(self.pool.drain());
        let closing = join_all(links.map(|link| async move { link.close().await }));
        let _ = tokio::time::timeout(CLOSE_WAIT, closing).await;
    }

    /// A client turns to another upstream: what it has set up here ends, but not its calls under way.
    pub(crate) fn leave(&self, client: &ClientKey) {
        self.want_level(client, None);
        if let Some(link) = self.live_link() {
            link.leave(client);
        }
        self.close_later(self.pool.leave(client));
    }

    pub(crate) fn forget(&self, client: &ClientKey) {
        self.want_level(client, None);
        if let Some(link) = self.live_link() {
            link.forget(client);
        }
        self.close_later(self.pool.forget(client));
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({})", self.plan.id)
    }
}
