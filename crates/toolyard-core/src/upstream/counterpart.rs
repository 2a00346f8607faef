//! The second link of an upstream that speaks both eras. Lists, pins and health come from the definition link.
//! Calls of clients of the other era go over the counterpart, so that the upstream serves each client in the client's
//! own era.
//!
//! The counterpart is opened by the first call that needs it and closed when it is idle: for a child process it
//! is a second process. An upstream that turns out to speak one era only has none, and its calls are converted.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use toolyard_model::{ClientKey, Greeting, Link, LinkEvent, Origin, Peer};
use toolyard_proto::{CallError, Reason, Revision};

use super::links::Lane;
use super::pool::restart_on_panic;
use super::questions::{Starter, answer};
use super::supervise::Outlets;
use super::{Upstream, fetch};
use crate::plan::NoCounterpart;
use crate::{bridge, levels};

/// How long the link is kept after the last client that used it has disconnected.
const KEPT: Duration = Duration::from_mins(1);
/// How long the link is kept unused while clients that used it are still connected.
const KEPT_FOR_CLIENTS: Duration = Duration::from_hours(1);
/// How often the link is checked for being idle.
const CHECK: Duration = Duration::from_secs(15);
/// After a failure, calls fail for this long before another attempt is made.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Counterpart {
    /// Read by every call in its era, so it is a pointer swap and not a lock.
    live: ArcSwapOption<LiveCounterpart>,
    /// The upstream speaks one era only.
    one_era: AtomicBool,
    stage: watch::Sender<Stage>,
    /// A call needs the link.
    wanted: Notify,
    in_use: AtomicUsize,
    users: Mutex<Users>,
    /// The greeting of the upstream in this era.
    greeting: ArcSwapOption<Greeting>,
}

struct LiveCounterpart {
    link: Arc<dyn Link>,
    since: SystemTime,
}

/// The clients that have used the link and are still connected.
struct Users {
    clients: HashSet<ClientKey>,
    last: Instant,
    /// The call for which the link is opened.
    starter: Option<Starter>,
}

/// The stages of opening the link.
#[derive(Clone, Debug)]
enum Stage {
    Closed,
    Opening,
    Open,
    /// The upstream speaks one era only, for this reason.
    OneEra(Reason),
    Failed(Reason, Instant),
}

/// The second link as `list` and the status report it.
#[derive(Clone, Debug)]
pub struct CounterpartStatus {
    pub revision: Revision,
    pub since: SystemTime,
    /// Calls and subscriptions that use it now.
    pub in_use: usize,
}

impl Default for Counterpart {
    fn default() -> Self {
        Self {
            live: ArcSwapOption::empty(),
            one_era: AtomicBool::new(false),
            stage: watch::Sender::new(Stage::Closed),
            wanted: Notify::new(),
            in_use: AtomicUsize::new(0),
            users: Mutex::new(Users { clients: HashSet::new(), last: Instant::now(), starter: None }),
            greeting: ArcSwapOption::empty(),
        }
    }
}

impl Counterpart {
    pub(super) fn live(&self) -> Option<Arc<dyn Link>> {
        self.live.load().as_ref().map(|live| live.link.clone())
    }

    pub(super) fn status(&self) -> Option<CounterpartStatus> {
        let live = self.live.load_full()?;
        let in_use = self.in_use.load(Ordering::Relaxed);
        Some(CounterpartStatus { revision: live.link.greeting().revision, since: live.since, in_use })
    }

    /// If every client is served over the definition link: the reason.
    pub(super) fn refusal(&self) -> Option<Reason> {
        match &*self.stage.borrow() {
            Stage::OneEra(why) => Some(why.clone()),
            _ => None,
        }
    }

    pub(super) fn has_one_era(&self) -> bool {
        self.one_era.load(Ordering::Acquire)
    }

    /// The greeting of the upstream in this era, if the link has ever been open.
    pub(super) fn greeting(&self) -> Option<Arc<Greeting>> {
        self.greeting.load_full()
    }

    pub(super) fn take(&self) -> Option<Arc<dyn Link>> {
        self.live.swap(None).map(|live| live.link.clone())
    }

    /// The definition link was opened again, possibly to another version of the server: try a second link again.
    pub(super) fn reset(&self) {
        self.one_era.store(false, Ordering::Release);
        self.stage.send_if_modified(|stage| {
            let is_refused = matches!(stage, Stage::OneEra(_));
            if is_refused {
                *stage = Stage::Closed;
            }
            is_refused
        });
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock()
    }

    pub(super) fn leave(&self, client: &ClientKey) {
        self.users().clients.remove(client);
        if let Some(link) = self.live() {
            link.leave(client);
        }
    }

    pub(super) fn forget(&self, client: &ClientKey) {
        let mut users = self.users();
        if users.clients.remove(client) {
            users.last = Instant::now();
        }
        drop(users);
        if let Some(link) = self.live() {
            link.forget(client);
        }
    }

    fn is_idle(&self) -> bool {
        let users = self.users();
        let kept = if users.clients.is_empty() { KEPT } else { KEPT_FOR_CLIENTS };
        self.in_use.load(Ordering::Acquire) == 0 && users.last.elapsed() >= kept
    }

    /// Takes the link away if it is idle. A call that found it in the same moment is counted and keeps it.
    fn take_if_idle(&self) -> bool {
        if !self.is_idle() {
            return false;
        }
        let taken = self.live.swap(None);
        if self.in_use.load(Ordering::Acquire) == 0 {
            return true;
        }
        self.live.store(taken);
        false
    }

    fn set(&self, stage: Stage) {
        self.one_era.store(matches!(stage, Stage::OneEra(_)), Ordering::Release);
        self.stage.send_replace(stage);
    }

    /// Counts a use before the link is looked up, so that it is not closed in between.
    fn use_by(upstream: &Arc<Upstream>, origin: &Origin) -> CounterpartUse {
        let counterpart = &upstream.links.counterpart;
        counterpart.in_use.fetch_add(1, Ordering::AcqRel);
        let mut users = counterpart.users();
        users.last = Instant::now();
        if !origin.client.may_span_programs() && !users.clients.contains(&origin.client) {
            users.clients.insert(origin.client.clone());
        }
        drop(users);
        CounterpartUse { upstream: upstream.clone(), starter: None }
    }

    /// Waits until the link is no longer `link`.
    pub(super) async fn replaced(&self, link: &Arc<dyn Link>) {
        let mut stage = self.stage.subscribe();
        while self.live().is_some_and(|live| Arc::ptr_eq(&live, link)) {
            if stage.changed().await.is_err() {
                return;
            }
        }
    }
}

/// The counterpart in use by a call or a subscription.
pub(super) struct CounterpartUse {
    upstream: Arc<Upstream>,
    /// The way back of the call for which the link was opened.
    starter: Option<Arc<Peer>>,
}

impl CounterpartUse {
    pub(super) fn of(&self) -> &Counterpart {
        &self.upstream.links.counterpart
    }
}

impl Drop for CounterpartUse {
    fn drop(&mut self) {
        let counterpart = &self.upstream.links.counterpart;
        counterpart.users().last = Instant::now();
        counterpart.in_use.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Upstream {
    /// Which link serves the calls of `origin`.
    pub(crate) fn lane_of(&self, origin: &Origin) -> Lane {
        if !bridge::has_inbox(origin) {
            return Lane::Definition;
        }
        let crosses = self.definitions().is_some_and(|known| self.crosses(origin, &known.greeting));
        if crosses { Lane::Counterpart } else { Lane::Definition }
    }

    /// The greeting of the upstream for a client like `origin`.
    pub(crate) async fn greeting_for(self: &Arc<Self>, origin: &Origin) -> Result<Greeting, CallError> {
        let own = match self.definitions() {
            Some(definitions) => definitions.greeting.clone(),
            None => self.link().await?.greeting().clone(),
        };
        if !self.crosses(origin, &own) {
            return Ok(own);
        }
        if let Some(known) = self.links.counterpart.greeting() {
            return Ok(Greeting::clone(&known));
        }
        match self.counterpart_for(origin, None).await {
            Ok(Some((link, _))) => Ok(link.greeting().clone()),
            _ => Ok(own),
        }
    }

    /// Whether calls of `origin` would have to be converted, although the upstream may speak its era.
    fn crosses(&self, origin: &Origin, own: &Greeting) -> bool {
        bridge::has_inbox(origin) && !self.links.counterpart.has_one_era() && bridge::crosses(origin, own)
    }

    /// Whether the upstream declares a capability to clients that keep a session.
    pub(crate) fn declares_in_session(&self, path: &[&str]) -> bool {
        let has = |greeting: &Greeting| greeting.capabilities.at(path).is_some();
        let own = self.links.counterpart.greeting();
        self.definitions().is_none_or(|known| has(&known.greeting)) || own.is_some_and(|own| has(&own))
    }

    /// The second link, if it is open.
    pub fn counterpart(&self) -> Option<CounterpartStatus> {
        self.links.counterpart.status()
    }

    /// Why clients of both eras share one link, if a second one was tried.
    pub fn counterpart_refusal(&self) -> Option<Reason> {
        self.links.counterpart.refusal()
    }

    /// The counterpart for `origin`, which is opened if necessary; `None` if the upstream speaks only one era.
    pub(super) async fn counterpart_for(
        self: &Arc<Self>,
        origin: &Origin,
        peer: Option<&Peer>,
    ) -> Result<Option<(Arc<dyn Link>, CounterpartUse)>, CallError> {
        let counterpart = &self.links.counterpart;
        let mut guard = Counterpart::use_by(self, origin);
        if let Some(link) = counterpart.live() {
            return Ok(Some((link, guard)));
        }
        let mut stage = counterpart.stage.subscribe();
        let mut attempts = 0;
        loop {
            let now = stage.borrow_and_update().clone();
            match now {
                // A link that was lost in the same moment is followed by another stage.
                Stage::Open => {
                    if let Some(link) = counterpart.live() {
                        return Ok(Some((link, guard)));
                    }
                }
                Stage::OneEra(_) => return Ok(None),
                Stage::Failed(reason, at) if attempts > 0 || at.elapsed() < PAUSE => {
                    return Err(self.no_counterpart(&reason));
                }
                Stage::Closed | Stage::Failed(..) => {
                    attempts += 1;
                    guard.starter = peer.map(|peer| Arc::new(peer.clone()));
                    let starter = guard.starter.as_ref().map(|peer| Starter::new(origin, peer));
                    counterpart.users().starter = starter;
                    counterpart.wanted.notify_one();
                }
                Stage::Opening => attempts += 1,
            }
            if self.life.is_retired() || stage.changed().await.is_err() {
                return Err(self.no_counterpart(&"it is no longer there".into()));
            }
        }
    }

    fn no_counterpart(&self, reason: &Reason) -> CallError {
        let what = "speaks both eras, and its connection for clients of this era could not be opened";
        let why = Reason::of_upstream(self.id().as_str(), what).caused_by(reason);
        CallError::unavailable(why.or_hint("set `era` to use a single connection")).at(self.name())
    }
}

/// Opens the link whenever a call needs it, takes its messages and closes it when it is idle.
pub(super) async fn tend(upstream: &Arc<Upstream>, outlets: &Outlets) {
    restart_on_panic(|| keep(upstream, outlets)).await;
}

async fn keep(upstream: &Arc<Upstream>, outlets: &Outlets) {
    let counterpart = &upstream.links.counterpart;
    if let Some(left) = counterpart.take() {
        upstream.links.close_later([left]);
    }
    loop {
        counterpart.wanted.notified().await;
        counterpart.set(Stage::Opening);
        let connector = upstream.connector();
        let limit = connector.longest_attempt();
        let connected = match tokio::time::timeout(limit, connector.connect_counterpart(None)).await {
            Ok(connected) => connected,
            Err(_) => {
                Err(NoCounterpart::Failed(format!("no connection within {} s", limit.as_secs()).into()))
            }
        };
        match connected {
            Ok(connected) => {
                let link = connected.link.clone();
                open(upstream, outlets, &link);
                let reason = attend(upstream, outlets, connected.events).await;
                tracing::info!(target: "upstream", upstream = %upstream.id(), %reason, "second link closed");
                counterpart.take();
                counterpart.set(Stage::Closed);
                link.close().await;
            }
            Err(NoCounterpart::OneEra(why)) => {
                tracing::info!(target: "upstream", upstream = %upstream.id(), reason = %why, "no second link: calls of legacy clients are converted");
                counterpart.set(Stage::OneEra(why));
            }
            Err(NoCounterpart::Failed(reason)) => {
                tracing::warn!(target: "upstream", upstream = %upstream.id(), %reason, "second link not opened");
                counterpart.set(Stage::Failed(reason, Instant::now()));
            }
        }
    }
}

fn open(upstream: &Arc<Upstream>, outlets: &Outlets, link: &Arc<dyn Link>) {
    let counterpart = &upstream.links.counterpart;
    let live = LiveCounterpart { link: link.clone(), since: SystemTime::now() };
    counterpart.greeting.store(Some(Arc::new(link.greeting().clone())));
    counterpart.live.store(Some(Arc::new(live)));
    counterpart.set(Stage::Open);
    levels::send_again(upstream, link, &outlets.origin);
    tracing::info!(target: "upstream", upstream = %upstream.id(), revision = %link.greeting().revision, "second link open");
}

/// Takes what the link sends outside of calls, until it ends or is idle; returns the reason.
async fn attend(
    upstream: &Arc<Upstream>,
    outlets: &Outlets,
    mut events: mpsc::Receiver<LinkEvent>,
) -> Reason {
    let starter = upstream.links.counterpart.users().starter.take();
    let mut check = tokio::time::interval(CHECK);
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            _ = check.tick() => {
                if upstream.links.counterpart.take_if_idle() {
                    return "it was idle".into();
                }
                continue;
            }
        };
        match event {
            Some(LinkEvent::Notification(client, notification))
                if fetch::is_list_change(&notification.method) =>
            {
                drop((client, notification));
                upstream.life.signals.outdated.notify_one();
            }
            Some(LinkEvent::Notification(client, notification)) => {
                outlets.listeners.take(upstream, Lane::Counterpart, client.as_ref(), &notification);
            }
            Some(LinkEvent::Ask(_, ask, reply)) => answer(upstream, starter.as_ref(), ask, reply),
            Some(LinkEvent::Closed(reason)) => return reason,
            None => return "its connection ended".into(),
        }
    }
}
