//! The life of an upstream: connect, fetch its lists, receive its announcements, notice its end, reconnect. One task
//! per upstream, so a slow or dead one delays no other.

mod outlets;
mod announcements;
mod listening;
mod pings;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval};
use toolyard_model::{Answer, Ask, AskError, BoxFuture, ClientKey, Link, LinkEvent};
use toolyard_proto::{Kind, Method, Notification, Raw, Reason, Revision};

use super::fetch::fetch;
use super::health::Vigil;
use super::reconnect::Backoff;
use super::retry::Failures;
use super::state::Phase;
use super::{Lane, Upstream, counterpart, pool};
use crate::catalog::{CacheHints, Definitions, ListKind, ListRead};
use crate::plan::{Connected, UpstreamKind};
use crate::{bridge, greet, levels};
use announcements::{Announcements, LOOK_AGAIN, scattered};
use listening::LISTEN_AGAIN;
pub(crate) use outlets::Outlets;
use pings::{Ping, PingOutcome};

const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// How often the use of an upstream is checked that is stopped when idle.
const USE_CHECK: Duration = Duration::from_secs(5);
/// When a list is asked for again that the upstream answered with an error.
const RETRY_LIST: Duration = Duration::from_secs(10);
/// A connection that lasted this long, or on which a call was answered, resets the count of failures.
const STEADY: Duration = Duration::from_secs(10);

pub(crate) async fn run(upstream: Arc<Upstream>, outlets: Outlets) {
    tokio::join!(
        keep_connected(&upstream, &outlets),
        pool::tend(&upstream, &outlets),
        counterpart::tend(&upstream, &outlets)
    );
}

/// However a turn ends, another follows: also after a panic in it.
async fn keep_connected(upstream: &Arc<Upstream>, outlets: &Outlets) {
    let lost_at = upstream.is_listed().then(Instant::now);
    let mut past = Backoff { lost_at, ..Backoff::default() };
    while !upstream.life.is_retired() {
        upstream.rest_until_wanted(outlets).await;
        let turn = AssertUnwindSafe(connect_and_live(upstream, outlets, &mut past)).catch_unwind();
        let reason = match turn.await {
            Ok(End::Idle) => continue,
            Ok(End::Lost(reason)) => reason,
            Err(_) => "internal error while handling the upstream; please report this bug".into(),
        };
        tracing::warn!(target: "upstream", upstream = %upstream.id(), %reason, "not connected");
        past.rest(upstream, outlets, reason).await;
    }
}

/// How a connection, or the attempt to make one, ended.
enum End {
    Lost(Reason),
    /// The upstream was stopped because it was not used.
    Idle,
}

/// Connects, and runs the connection until it has ended. Returns early if no connection can be made.
async fn connect_and_live(upstream: &Arc<Upstream>, outlets: &Outlets, past: &mut Backoff) -> End {
    if upstream.state().phase == Phase::Discovered {
        past.within_grace(upstream, outlets, upstream.sighted()).await;
    }
    match past.within_grace(upstream, outlets, attempt(upstream, outlets)).await {
        Ok(connected) => {
            let begun = Instant::now();
            upstream.life.begin_to_serve();
            let mut driver = Driver::begin(upstream, outlets, connected);
            let end = driver.run().await;
            if driver.learned {
                past.lost_at = None;
                past.failures.unreached = 0;
                if begun.elapsed() >= STEADY || upstream.life.has_served() {
                    past.failures = Failures::default();
                }
            }
            end
        }
        Err(reason) => End::Lost(reason),
    }
}

/// One attempt to connect. A process waits for its turn to start, and its time runs from then on.
async fn attempt(upstream: &Arc<Upstream>, outlets: &Outlets) -> Result<Connected, Reason> {
    let connector = upstream.connector();
    let _turn = if connector.starts_process() {
        if upstream.life.phase() == Phase::Discovered {
            upstream.life.enter(Phase::Discovered, Some("it waits for its turn to start".into()));
        }
        let turn = outlets.starts.acquire().await;
        upstream.life.enter(Phase::Starting, Some("it is starting".into()));
        turn.ok()
    } else {
        upstream.life.enter(Phase::Connecting, None);
        None
    };
    let (limit, connecting) = (connector.longest_attempt(), connector.connect(upstream.known_revision()));
    match tokio::time::timeout(limit, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(format!("no connection within {} s", limit.as_secs()).into()),
    }
}

impl Upstream {
    fn review(&self, outlets: &Outlets, definitions: &mut Definitions) {
        outlets.review(&self.id, self.kind, self.policy().own.pins.as_deref(), definitions);
    }

    /// Decides again which of its tools are offered, after one was approved or switched, or after the terms changed.
    pub(crate) fn review_again(&self, outlets: &Outlets) {
        let not_offered = || self.definitions().map(|one| (one.held().clone(), one.off().clone()));
        let before = not_offered();
        self.life.revise(|definitions| self.review(outlets, definitions));
        if not_offered() != before {
            outlets.announce();
        }
    }

    /// Waits until a call needs it.
    async fn rest_until_wanted(&self, outlets: &Outlets) {
        let was_stopped = self.life.phase() == Phase::Active;
        let is_new = self.life.phase() == Phase::Discovered && self.state().connected.is_none();
        let is_lazy = is_new && self.policy().own.start.lazy && self.known_revision().is_some();
        if !was_stopped && !is_lazy {
            return;
        }
        self.life.enter(Phase::Idle, Some("its next call starts it".into()));
        self.life.state.send_modify(|state| state.settled = true);
        outlets.announce();
        self.life.signals.wanted.notified().await;
        self.life.enter(Phase::Discovered, None);
    }

    /// Whether it has not been used for so long that it is to be stopped.
    fn is_unused(&self) -> bool {
        let Some(limit) = self.policy().own.start.stop_when_idle else { return false };
        let used = self.last_activity().or(self.state().connected);
        let unused = used.and_then(|used| used.elapsed().ok()).unwrap_or_default();
        self.calls() == 0 && self.links.subscriptions.is_empty() && unused >= limit
    }

    /// The answer to a question that belongs to no call.
    pub(super) fn answer_outside_call(&self, ask: &Ask) -> Result<Raw, AskError> {
        if ask.method == Method::ROOTS_LIST {
            let roots: Vec<_> =
                self.policy().own.roots.iter().map(|uri| serde_json::json!({ "uri": uri })).collect();
            return Ok(serde_json::json!({ "roots": roots }).into());
        }
        Err(AskError::Unsupported("no call is under way whose client could be asked".into()))
    }
}

/// One connection, from the greeting to its end.
struct Driver<'a> {
    upstream: &'a Arc<Upstream>,
    outlets: &'a Outlets,
    link: Arc<dyn Link>,
    events: mpsc::Receiver<LinkEvent>,
    notifications: mpsc::Receiver<Notification>,
    notify: mpsc::Sender<Notification>,
    listening: Option<BoxFuture<Answer>>,
    listen_at: Option<Instant>,
    refreshing: Option<BoxFuture<Result<Fetched, Reason>>>,
    /// The earliest time to ask for the lists again.
    refresh_at: Instant,
    /// How long after its end the next listening begins.
    listen_pause: Duration,
    listen_since: Instant,
    /// When an upstream that announces nothing is asked for its lists again.
    look_at: Option<Instant>,
    dirty: Vec<ListKind>,
    announcements: Announcements,
    learned: bool,
    vigil: Vigil,
    pinging: Option<Ping>,
    /// When the entries of an upstream that does not answer leave the lists.
    unlist_at: Option<Instant>,
    use_check: Interval,
    /// Whether it is stopped when it is not used.
    checks_use: bool,
    metered: MeteredConnection,
}

/// Adds a connection to the metrics when it ends, however it does.
struct MeteredConnection {
    upstream: Arc<Upstream>,
    revision: Revision,
    begun: Instant,
    was_lost: bool,
}

impl Drop for MeteredConnection {
    fn drop(&mut self) {
        self.upstream.meter().add_connection(self.revision, self.was_lost, self.begun.elapsed());
    }
}

type Fetched = Vec<(ListKind, ListRead)>;

enum LifeEvent {
    Link(Option<LinkEvent>),
    Notification(Notification),
    ListenEnded(Answer),
    ListenAgain,
    Refreshed(Result<Fetched, Reason>),
    Suspected,
    Outdated,
    LookAgain,
    /// The policy was replaced by a reload.
    PolicyChanged,
    /// A ping is due.
    PingDue,
    Pinged(PingOutcome),
    GraceOver,
    /// A check is due whether the upstream is used.
    UseCheck,
}

impl<'a> Driver<'a> {
    fn begin(upstream: &'a Arc<Upstream>, outlets: &'a Outlets, connected: Connected) -> Self {
        let Connected { link, events } = connected;
        upstream.forget_doubts();
        upstream.links.counterpart.reset();
        upstream.links.set_live(link.clone());
        let (notify, notifications) = mpsc::channel(64);
        let listen_at = bridge::must_listen(link.greeting().revision).then(Instant::now);
        let dirty = ListKind::ALL.to_vec();
        let listening = None;
        let refreshing = None;
        let now = Instant::now();
        let vigil = vigil(upstream, link.as_ref(), now);
        let (upstream_too, revision) = (upstream.clone(), link.greeting().revision);
        let metered = MeteredConnection { upstream: upstream_too, revision, begun: now, was_lost: false };
        Self {
            upstream,
            outlets,
            link,
            events,
            notifications,
            notify,
            listening,
            listen_at,
            refreshing,
            refresh_at: now,
            listen_pause: LISTEN_AGAIN,
            listen_since: now,
            look_at: None,
            dirty,
            announcements: Announcements::default(),
            learned: false,
            vigil,
            pinging: None,
            unlist_at: None,
            use_check: tokio::time::interval(USE_CHECK),
            checks_use: upstream.policy().own.start.stop_when_idle.is_some(),
            metered,
        }
    }

    /// Runs until the link ends, or is ended because it is not used.
    async fn run(&mut self) -> End {
        let end = loop {
            self.start_refresh();
            match self.next_event().await {
                LifeEvent::UseCheck if self.learned && self.upstream.is_unused() => break End::Idle,
                event => {
                    if let Some(reason) = self.take(event) {
                        break End::Lost(reason);
                    }
                }
            }
        };
        self.metered.was_lost = matches!(end, End::Lost(_));
        self.upstream.links.take_live();
        let _ = tokio::time::timeout(CLOSE_WAIT, self.link.let_go()).await;
        end
    }

    async fn next_event(&mut self) -> LifeEvent {
        tokio::select! {
            event = self.events.recv() => LifeEvent::Link(event),
            Some(notification) = self.notifications.recv() => LifeEvent::Notification(notification),
            answer = pending_or(self.listening.as_mut()) => LifeEvent::ListenEnded(answer),
            () = at_time(self.listen_at) => LifeEvent::ListenAgain,
            fetched = pending_or(self.refreshing.as_mut()) => LifeEvent::Refreshed(fetched),
            () = self.upstream.life.signals.suspect.notified() => LifeEvent::Suspected,
            () = self.upstream.life.signals.outdated.notified() => LifeEvent::Outdated,
            () = at_time(self.look_at) => LifeEvent::LookAgain,
            () = self.upstream.life.signals.policy.notified() => LifeEvent::PolicyChanged,
            () = at_time(self.vigil.due()), if self.learned => LifeEvent::PingDue,
            () = self.upstream.life.signals.doubted.notified() => LifeEvent::PingDue,
            outcome = pending_or(self.pinging.as_mut().map(|ping| &mut ping.outcome)) => LifeEvent::Pinged(outcome),
            () = at_time(self.unlist_at) => LifeEvent::GraceOver,
            _ = self.use_check.tick(), if self.checks_use => LifeEvent::UseCheck,
        }
    }

    fn take(&mut self, event: LifeEvent) -> Option<Reason> {
        match event {
            LifeEvent::Link(Some(LinkEvent::Notification(client, notification))) => {
                self.announcement(client.as_ref(), &notification);
            }
            LifeEvent::Link(Some(LinkEvent::Ask(_, ask, reply))) => {
                let _ = reply.send(self.upstream.answer_outside_call(&ask));
            }
            LifeEvent::Link(Some(LinkEvent::Closed(reason))) => return Some(reason),
            LifeEvent::Link(None) => return Some("its connection ended".into()),
            LifeEvent::Notification(notification) => self.announcement(None, &notification),
            LifeEvent::ListenEnded(answer) => self.listen_ended(answer),
            LifeEvent::ListenAgain => self.listen(),
            LifeEvent::Refreshed(fetched) => return self.refreshed(fetched),
            LifeEvent::Suspected => self.ask(true),
            LifeEvent::PingDue => self.ask(false),
            LifeEvent::UseCheck => {}
            LifeEvent::PolicyChanged => {
                self.checks_use = self.upstream.policy().own.start.stop_when_idle.is_some();
                let regular = pings_regularly(self.upstream, self.link.as_ref());
                self.vigil.follow(self.upstream.pace().pings, regular, Instant::now());
            }
            LifeEvent::Pinged(outcome) => return self.pinged(outcome),
            LifeEvent::GraceOver => {
                self.unlist_at = None;
                self.upstream.unlist(self.outlets);
            }
            LifeEvent::Outdated => {
                self.look_at = None;
                self.dirty = ListKind::ALL.to_vec();
            }
            LifeEvent::LookAgain => {
                self.look_at = None;
                let unannounced = self.unannounced();
                self.mark_dirty(&unannounced);
                let failed = self.upstream.definitions().map(|definitions| definitions.failed_lists());
                self.mark_dirty(&failed.unwrap_or_default());
            }
        }
        None
    }

    fn announcement(&mut self, client: Option<&ClientKey>, notification: &Notification) {
        let kinds: &[ListKind] = match notification.method.as_str() {
            "notifications/tools/list_changed" => &[ListKind::Tools],
            "notifications/prompts/list_changed" => &[ListKind::Prompts],
            "notifications/resources/list_changed" => &[ListKind::Resources, ListKind::Templates],
            "notifications/subscriptions/acknowledged" => {
                return self.announcements.acknowledge(notification.params.as_ref());
            }
            _ => return self.outlets.listeners.take(self.upstream, Lane::Definition, client, notification),
        };
        self.announcements.announced.extend(kinds);
        self.mark_dirty(kinds);
    }

    fn mark_dirty(&mut self, kinds: &[ListKind]) {
        for kind in kinds {
            if !self.dirty.contains(kind) {
                self.dirty.push(*kind);
            }
        }
    }

    fn start_refresh(&mut self) {
        if self.refreshing.is_some() || self.dirty.is_empty() || self.vigil.is_away() {
            return;
        }
        let kinds = std::mem::take(&mut self.dirty);
        self.announcements.being_read = std::mem::take(&mut self.announcements.announced);
        let (link, origin) = (self.link.clone(), self.outlets.origin.clone());
        let may_fail = self.may_fail();
        // An upstream that announces a change whenever it is listed must not be listed without pause.
        let begin = std::mem::replace(&mut self.refresh_at, Instant::now() + self.upstream.pace().debounce);
        self.refreshing = Some(Box::pin(async move {
            tokio::time::sleep_until(begin).await;
            let mut fetched = Vec::new();
            for kind in kinds {
                let read = match fetch(link.clone(), origin.clone(), kind).await {
                    Err(error) if may_fail.contains(&kind) && matches!(error.kind, Kind::Reported(_)) => {
                        failed_read(kind, error.reason)
                    }
                    read => read.map_err(|error| not_listed(kind, error.reason))?,
                };
                fetched.push((kind, read));
            }
            Ok(fetched)
        }));
    }

    /// The lists that are empty as long as the upstream answers with an error: there is no older list to keep.
    fn may_fail(&self) -> Vec<ListKind> {
        match self.upstream.definitions() {
            Some(definitions) if self.learned => definitions.failed_lists(),
            _ => ListKind::ALL.to_vec(),
        }
    }

    /// Shows and stores new definitions. If the first fetch gets no answer, the connection ends; after a later failure
    /// the old definitions stay.
    fn refreshed(&mut self, fetched: Result<Fetched, Reason>) -> Option<Reason> {
        self.refreshing = None;
        let mut fetched = match fetched {
            Ok(fetched) => fetched,
            Err(reason) if !self.learned => return Some(reason),
            Err(reason) => {
                tracing::warn!(target: "upstream", upstream = %self.upstream.id(), %reason, "lists not refreshed");
                self.look_at = Some(Instant::now() + scattered(LOOK_AGAIN));
                return None;
            }
        };
        if fetched.iter().any(|(_, read)| read.meta.as_ref().is_some_and(greet::leads_back)) {
            return Some(greet::loop_reason(self.upstream.name()));
        }
        let mut definitions = match self.upstream.definitions() {
            Some(old) if self.learned => Definitions::clone(&old),
            _ => Definitions::new(self.link.greeting().clone()),
        };
        if let Some(old) = self.upstream.definitions() {
            keep_entries(&mut fetched, &old);
        }
        if self.is_ours() {
            for (_, read) in &mut fetched {
                read.hints = CacheHints::default();
            }
        }
        let is_known = |(kind, read): &&(ListKind, ListRead)| definitions.is_list(*kind, read);
        let unchanged: Vec<ListKind> = fetched.iter().filter(is_known).map(|(kind, _)| *kind).collect();
        let is_news = !self.learned || unchanged.len() < fetched.len();
        for (kind, read) in fetched {
            definitions.set(kind, read);
        }
        self.look_at = self.next_look(&definitions);
        if !definitions.failed_lists().is_empty() {
            let retry = Instant::now() + scattered(RETRY_LIST);
            self.look_at = Some(self.look_at.map_or(retry, |look| look.min(retry)));
        }
        if is_news {
            self.publish(definitions);
            self.announcements.passed_on = Some(Instant::now());
        }
        self.pass_on_announcement(&unchanged);
        self.upstream.life.renewals.send_modify(|renewals| *renewals += 1);
        None
    }

    fn publish(&mut self, mut definitions: Definitions) {
        self.upstream.review(self.outlets, &mut definitions);
        // A dynamic upstream declares what it offers whenever it connects.
        let is_complete = definitions.failed_lists().is_empty();
        let is_kept = is_complete && !self.upstream.kind().is_dynamic();
        if let Some(store) = self.outlets.store.as_ref().filter(|_| is_kept) {
            store.save_later(self.upstream.id(), &self.upstream.fingerprint, &definitions);
        }
        if let Some(before) = self.upstream.definitions() {
            self.upstream.changes.record(&before, &definitions);
        }
        self.upstream.life.learn(definitions);
        self.upstream.life.list(!self.vigil.is_away());
        if !self.learned {
            self.learned = true;
            levels::send_again(self.upstream, &self.link, &self.outlets.origin);
            tracing::info!(target: "upstream", upstream = %self.upstream.id(), revision = %self.link.greeting().revision, "active");
            self.upstream.life.enter(Phase::Active, None);
            self.upstream.life.state.send_modify(|state| state.settled = true);
        }
        self.outlets.announce();
    }
}

/// Whether and when this connection is pinged. One that was discovered is pinged at once: if it does not answer,
/// it may not know pings, and its silence later means nothing.
fn vigil(upstream: &Upstream, link: &dyn Link, now: Instant) -> Vigil {
    let pings = upstream.pace().pings;
    let regular = pings_regularly(upstream, link);
    let first = if upstream.kind() == UpstreamKind::Instance { now } else { now + pings.every };
    Vigil::new(pings, regular, bridge::knows_health_check(link.greeting()), first)
}

/// Whether the config wants regular pings and the link can carry them.
fn pings_regularly(upstream: &Upstream, link: &dyn Link) -> bool {
    let policy = upstream.policy();
    policy.pace.pings.regular && policy.own.pinged && link.answers_pings()
}

/// Waits for a future that may not be there.
async fn pending_or<F: Future + Unpin>(future: Option<&mut F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Waits for a moment that may not be set.
async fn at_time(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// A list that the upstream could not give keeps the entries of an earlier connection.
fn keep_entries(fetched: &mut Fetched, old: &Definitions) {
    for (kind, read) in fetched.iter_mut().filter(|(_, read)| read.failure.is_some()) {
        read.entries = old.list(*kind).to_vec();
    }
}

/// A list that the upstream could not give. Its link stays: everything else of it can be used.
fn failed_read(kind: ListKind, reason: Reason) -> ListRead {
    let failure = format!("{} (asked again every {} s)", not_listed(kind, reason), RETRY_LIST.as_secs());
    ListRead { failure: Some(failure), ..ListRead::default() }
}

/// A complete clause names what was asked; a predicate of the upstream needs no more.
fn not_listed(kind: ListKind, reason: Reason) -> Reason {
    if reason.is_predicate() {
        return reason;
    }
    Reason::new(format!("`{}` failed", kind.method())).caused_by(&reason)
}
