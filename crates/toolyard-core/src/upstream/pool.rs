//! Links that belong to one client. If an upstream asks questions during calls and all clients share one channel, it is
//! not known which client a question is for. Therefore each client gets a link of its own, and a request without a
//! session gets one for as long as it runs. The same connector makes them, and their number is limited: when all are in
//! use, a call waits for one.
//!
//! Definitions, and announcements for all clients, still come from the shared link.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolyard_model::{ClientKey, Link, LinkEvent, Origin, Peer, Principal};
use toolyard_proto::{CallError, Raw, Reason, Retry};

use super::fetch::is_list_change;
use super::links::Lane;
use super::questions::{CountedPeer, OpenQuestions, Starter, answer};
use super::supervise::Outlets;
use super::{Lease, Upstream};
use crate::bridge;
use crate::plan::{NoCounterpart, Sharing};

/// How many links of their own the clients of one upstream may have.
const MOST: usize = 16;
/// How many of them one client may hold by calls that wait for its answers; then its oldest question is cancelled.
const MOST_ASKING_PER_CLIENT: usize = 4;
/// How many of them all such calls may hold. The rest is kept for calls that do not wait for an answer.
const MOST_ASKING: usize = MOST - MOST / 4;
/// How long an unused one is kept.
const IDLE: Duration = Duration::from_mins(1);
/// The same with `sharing = "client"`, because the state that the upstream keeps for the client ends with the link.
const IDLE_PROMISED: Duration = Duration::from_hours(1);
/// How often idle links are closed.
const LOOK: Duration = Duration::from_secs(15);

/// How long after a panic of our own the task is started again.
const AFTER_PANIC: Duration = Duration::from_secs(1);

pub(super) struct Pool {
    promised: bool,
    /// Set once it is clear that clients cannot share.
    needed: AtomicBool,
    state: Mutex<PoolState>,
    /// A link was opened, released, or has ended.
    changed: Notify,
}

#[derive(Default)]
struct PoolState {
    last: u64,
    last_question: u64,
    members: Vec<Member>,
}

struct Member {
    number: u64,
    owner: Owner,
    /// `None` while it is being opened.
    link: Option<Arc<dyn Link>>,
    busy: usize,
    since: Instant,
    questions: OpenQuestions,
}

/// The owner of a link. The upstream is sent that client's capabilities.
#[derive(Clone, PartialEq, Eq)]
enum Owner {
    Client(ClientKey),
    /// Requests of one principal without a session and with the same capabilities, one at a time.
    Alone(Principal, Raw),
}

impl Owner {
    /// If each client has its own link from the start, a principal counts as one client.
    fn of(origin: &Origin, promised: bool) -> Self {
        match &origin.client {
            client @ ClientKey::Principal(_) if promised => Self::Client(client.clone()),
            client if client.may_span_programs() => {
                Self::Alone(origin.principal.clone(), origin.capabilities.clone())
            }
            client => Self::Client(client.clone()),
        }
    }

    /// Whether questions on both links are put to the same client. Requests without a session are one client for each
    /// principal, since they cannot be distinguished.
    fn is_same_client(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Client(one), Self::Client(other)) => one == other,
            (Self::Alone(one, _), Self::Alone(other, _)) => one == other,
            _ => false,
        }
    }

    fn client(&self) -> Option<&ClientKey> {
        match self {
            Self::Client(client) => Some(client),
            Self::Alone(..) => None,
        }
    }
}

/// Whether a client can answer any question of an upstream.
pub(crate) fn can_be_asked(origin: &Origin) -> bool {
    ["elicitation", "sampling", "roots"].iter().any(|kind| origin.capabilities.member(kind).is_some())
}

/// The outcome of a request for a link.
enum Found {
    Ready(u64, Arc<dyn Link>),
    /// There is room: open one under this number.
    Room(u64),
    Wait,
}

impl Pool {
    pub(super) fn new(sharing: Sharing) -> Self {
        Self {
            promised: sharing == Sharing::Client,
            needed: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Whether calls of clients go over links of their own, given the link that all share.
    pub(super) fn is_used(&self, shared: &dyn Link, origin: &Origin) -> bool {
        if !shared.is_shared() {
            return false;
        }
        if !bridge::asks_in_calls(shared.greeting().revision) {
            return self.promised;
        }
        if shared.is_interactive() && !self.needed.load(Ordering::Relaxed) {
            self.needed.store(true, Ordering::Relaxed);
        }
        // A client that can answer no question has no use for a link of its own.
        self.promised || (self.needed.load(Ordering::Relaxed) && can_be_asked(origin))
    }

    /// Whether the config gives each client its own link (`sharing = "client"`). Subscriptions and settings of a client
    /// then belong to its own link, too.
    pub(super) fn is_promised(&self, shared: &dyn Link) -> bool {
        self.promised && shared.is_shared()
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }

    pub(super) fn len(&self) -> usize {
        self.state().members.len()
    }

    /// The link of a client that has one now.
    pub(super) fn link_of(&self, client: &ClientKey) -> Option<Arc<dyn Link>> {
        let state = self.state();
        let own = state.members.iter().find(|member| member.owner.client() == Some(client));
        own.and_then(|member| member.link.clone())
    }

    /// Finds a link for `owner`, or room for one; an idle one makes room, and is returned to be closed.
    fn find(&self, owner: &Owner) -> (Found, Option<Arc<dyn Link>>) {
        let mut state = self.state();
        for member in state.members.iter_mut().filter(|member| member.owner == *owner) {
            match &member.link {
                Some(link) if owner.client().is_some() || member.busy == 0 => {
                    member.busy += 1;
                    return (Found::Ready(member.number, link.clone()), None);
                }
                None if owner.client().is_some() => return (Found::Wait, None),
                _ => {}
            }
        }
        let mut evicted = None;
        if state.members.len() >= MOST {
            let idle = state.members.iter().filter(|member| member.busy == 0);
            let Some(number) = idle.min_by_key(|member| member.since).map(|member| member.number) else {
                return (Found::Wait, None);
            };
            evicted = state.remove(number);
        }
        state.last += 1;
        let number = state.last;
        let owner = owner.clone();
        let since = Instant::now();
        let questions = OpenQuestions::default();
        state.members.push(Member { number, owner, link: None, busy: 1, since, questions });
        (Found::Room(number), evicted)
    }

    /// Whether all links are in use.
    pub(super) fn is_full(&self) -> bool {
        let state = self.state();
        state.members.len() >= MOST && state.members.iter().all(|member| member.busy > 0)
    }

    /// A call on this link asks its client. The token is cancelled when the question has to make room.
    pub(super) fn begin_question(&self, number: u64) -> Result<CancellationToken, NoQuestion> {
        let mut state = self.state();
        state.last_question += 1;
        let since = state.last_question;
        let own = state.member(number).map(|member| member.owner.clone()).ok_or(NoQuestion::LinkEnded)?;
        let is_other = |member: &&Member| member.number != number && member.questions.is_open();
        let asking = state.members.iter().filter(is_other).count();
        let mine = state.members.iter().filter(is_other).filter(|member| member.owner.is_same_client(&own));
        if mine.clone().count() >= MOST_ASKING_PER_CLIENT || asking >= MOST_ASKING {
            match mine.min_by_key(|member| member.questions.since()) {
                Some(oldest) => oldest.questions.cancel(),
                None => return Err(NoQuestion::TooMany),
            }
        }
        Ok(state.member(number).ok_or(NoQuestion::LinkEnded)?.questions.begin(since))
    }

    pub(super) fn end_question(&self, number: u64) {
        if let Some(member) = self.state().member(number) {
            member.questions.end();
        }
        self.changed.notify_waiters();
    }

    fn remove(&self, number: u64) -> Option<Arc<dyn Link>> {
        let removed = self.state().remove(number);
        self.changed.notify_waiters();
        removed
    }

    fn opened(&self, number: u64, link: &Arc<dyn Link>) {
        if let Some(member) = self.state().member(number) {
            member.link = Some(link.clone());
        }
        self.changed.notify_waiters();
    }

    /// Gives a link back. If a request without a session was abandoned on it, the upstream may still send something
    /// about that request, so no other client gets the link.
    fn give_back(&self, number: u64, is_done: bool) -> Option<Arc<dyn Link>> {
        let mut state = self.state();
        let member = state.member(number)?;
        member.busy -= 1;
        member.since = Instant::now();
        let spoilt = member.link.is_none() || (member.owner.client().is_none() && !is_done);
        let removed = if spoilt { state.remove(number) } else { None };
        drop(state);
        self.changed.notify_waiters();
        removed
    }

    /// Waits until a link has ended, for whatever reason.
    async fn gone(&self, number: u64) {
        loop {
            let changed = self.changed.notified();
            if self.state().member(number).is_none() {
                return;
            }
            changed.await;
        }
    }

    fn take_out(&self, which: impl Fn(&Member) -> bool) -> Vec<Arc<dyn Link>> {
        let out: Vec<Member> = self.state().members.extract_if(.., |member| which(member)).collect();
        self.changed.notify_waiters();
        out.into_iter().filter_map(|member| member.link).collect()
    }

    /// A client has disconnected: its link is removed.
    pub(super) fn forget(&self, client: &ClientKey) -> Vec<Arc<dyn Link>> {
        self.take_out(|member| member.owner.client() == Some(client))
    }

    /// A client has connected to another upstream: its link is removed, unless it is in use; then it is removed when
    /// idle.
    pub(super) fn leave(&self, client: &ClientKey) -> Vec<Arc<dyn Link>> {
        self.take_out(|member| member.owner.client() == Some(client) && member.busy == 0)
    }

    /// Removes all links, to be closed.
    pub(super) fn drain(&self) -> Vec<Arc<dyn Link>> {
        self.take_out(|_| true)
    }

    fn idle(&self) -> Vec<Arc<dyn Link>> {
        let limit = if self.promised { IDLE_PROMISED } else { IDLE };
        self.take_out(|member| member.busy == 0 && member.since.elapsed() >= limit)
    }
}

impl PoolState {
    fn member(&mut self, number: u64) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.number == number)
    }

    fn remove(&mut self, number: u64) -> Option<Arc<dyn Link>> {
        let at = self.members.iter().position(|member| member.number == number)?;
        self.members.swap_remove(at).link
    }
}

/// A link from the pool for the calls of `origin`, opened if need be.
pub(super) async fn lease_from_pool(
    upstream: &Arc<Upstream>,
    origin: &Origin,
    lane: Lane,
    peer: Option<&Peer>,
) -> Result<Lease, CallError> {
    let pool = &upstream.links.pool;
    let owner = Owner::of(origin, pool.promised);
    loop {
        let mut changed = std::pin::pin!(pool.changed.notified());
        changed.as_mut().enable();
        let (found, evicted) = pool.find(&owner);
        upstream.links.close_later(evicted);
        match found {
            Found::Ready(number, link) => return Ok(Lease::own(link, Held::new(upstream, number))),
            Found::Room(number) => {
                return open(upstream, number, origin, lane, peer).await;
            }
            Found::Wait => changed.await,
        }
    }
}

async fn open(
    upstream: &Arc<Upstream>,
    number: u64,
    origin: &Origin,
    lane: Lane,
    peer: Option<&Peer>,
) -> Result<Lease, CallError> {
    let mut held = Held::new(upstream, number);
    held.starter = peer.map(|peer| Arc::new(peer.clone()));
    let starter = held.starter.as_ref().map(|peer| Starter::new(origin, peer));
    let connector = upstream.connector();
    let connecting = match lane {
        Lane::Definition => connector.connect_for(upstream.known_revision(), origin),
        Lane::Counterpart => {
            let connecting = connector.connect_counterpart(Some(origin));
            Box::pin(async move { connecting.await.map_err(NoCounterpart::into_reason) })
        }
    };
    let connecting = tokio::time::timeout(connector.longest_attempt(), connecting);
    let connected = match connecting.await {
        Ok(Ok(connected)) => connected,
        Ok(Err(reason)) => return Err(not_opened(upstream, &reason)),
        Err(_) => return Err(not_opened(upstream, &"no answer in time".into())),
    };
    if !upstream.links.pool.promised {
        upstream.watch_on_own_link(&connected.link, &origin.client).await;
    }
    upstream.links.pool.opened(number, &connected.link);
    let owner = Owner::of(origin, upstream.links.pool.promised).client().cloned();
    let member = OpenedLink { number, owner, lane, starter, events: connected.events };
    let _ = upstream.links.opened.0.send(member).await;
    Ok(Lease::own(connected.link, held))
}

fn not_opened(upstream: &Upstream, reason: &Reason) -> CallError {
    let what =
        "needs a connection per client, since it asks clients questions, and this one could not be opened";
    let why = Reason::of_upstream(upstream.id().as_str(), what).caused_by(reason);
    CallError::unavailable(why).at(upstream.name())
}

/// Why a call cannot ask its client.
pub(super) enum NoQuestion {
    LinkEnded,
    /// The questions of other clients leave no room.
    TooMany,
}

impl fmt::Display for NoQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkEnded => f.write_str("the connection of this call has ended"),
            Self::TooMany => {
                write!(f, "{MOST_ASKING} questions of other clients are open; try again later")
            }
        }
    }
}

/// The error of a call that had to ask its client and was not allowed to. Its upstream may have done some of it.
fn not_asked(upstream: &Upstream) -> CallError {
    let what = format!("needed to ask this client a question, but {}", NoQuestion::TooMany);
    let why = Reason::of_upstream(upstream.id().as_str(), what);
    let mut error = CallError::limit(why).at(upstream.name());
    error.retry = Retry::IfIdempotent;
    error
}

/// The error of a call that waited for a link of its own and got none.
pub(super) fn all_in_use(upstream: &Upstream) -> CallError {
    let what = format!(
        "already has {MOST} connections (one per client, because it asks questions); none became free within the time of \
         this call"
    );
    let why = Reason::of_upstream(upstream.id().as_str(), what);
    CallError::limit(why.with_hint("answer or cancel open questions, or try again later")).at(upstream.name())
}

/// A link of the pool in use.
pub(super) struct Held {
    upstream: Arc<Upstream>,
    number: u64,
    is_done: AtomicBool,
    /// Set when the last question of the call was refused because too many are open.
    was_refused: Arc<AtomicBool>,
    /// The way back of the call for which the link was opened.
    starter: Option<Arc<Peer>>,
}

impl Held {
    fn new(upstream: &Arc<Upstream>, number: u64) -> Self {
        let (is_done, was_refused) = (AtomicBool::new(false), Arc::default());
        Self { upstream: upstream.clone(), number, is_done, was_refused, starter: None }
    }

    /// Waits until the link has ended.
    pub(super) async fn gone(&self) {
        self.upstream.links.pool.gone(self.number).await;
    }

    /// The way back of a call on this link, with its questions counted.
    pub(super) fn counted(&self, peer: Peer) -> Peer {
        let (upstream, was_refused) = (self.upstream.clone(), self.was_refused.clone());
        Peer::new(Arc::new(CountedPeer { peer, upstream, number: self.number, was_refused }))
    }

    /// The error of a call whose question was refused because too many are open.
    pub(super) fn not_asked(&self) -> Option<CallError> {
        self.was_refused.load(Ordering::Relaxed).then(|| not_asked(&self.upstream))
    }

    /// The call on it has ended.
    pub(super) fn done(&self) {
        self.is_done.store(true, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let spoilt = self.upstream.links.pool.give_back(self.number, *self.is_done.get_mut());
        self.upstream.links.close_later(spoilt);
    }
}

/// A link of the pool that was just opened, for [`tend`] to listen to.
pub(super) struct OpenedLink {
    number: u64,
    owner: Option<ClientKey>,
    lane: Lane,
    starter: Option<Starter>,
    events: mpsc::Receiver<LinkEvent>,
}

/// Listens to the links of the pool and ends those that are idle, for as long as the upstream lives.
pub(super) async fn tend(upstream: &Arc<Upstream>, outlets: &Outlets) {
    restart_on_panic(|| tend_links(upstream, outlets)).await;
}

/// Runs something to its end, and starts it again if it panics: calls wait for what it does.
pub(super) async fn restart_on_panic<F: Future<Output = ()>>(turn: impl Fn() -> F) {
    while AssertUnwindSafe(turn()).catch_unwind().await.is_err() {
        tracing::error!(target: "upstream", "maintaining the links of clients failed, which is a bug");
        tokio::time::sleep(AFTER_PANIC).await;
    }
}

async fn tend_links(upstream: &Arc<Upstream>, outlets: &Outlets) {
    let mut look = tokio::time::interval(LOOK);
    let mut opened = upstream.links.opened.1.lock().await;
    loop {
        tokio::select! {
            Some(member) = opened.recv() => {
                upstream.life.scope.spawn(attend(upstream.clone(), outlets.clone(), member));
            }
            _ = look.tick() => upstream.links.close_later(upstream.links.pool.idle()),
        }
    }
}

/// Takes what one link sends outside of calls, until it ends. A link whose messages are not taken is closed.
async fn attend(upstream: Arc<Upstream>, outlets: Outlets, mut member: OpenedLink) {
    let number = member.number;
    let listening = AssertUnwindSafe(listen_to(&upstream, &outlets, &mut member)).catch_unwind();
    let is_ended = listening.await.is_ok();
    let link = upstream.links.pool.remove(number);
    if !is_ended {
        tracing::error!(target: "upstream", upstream = %upstream.id(), "an event of a client's link was not handled, which is a bug");
        upstream.links.close_later(link);
    }
}

async fn listen_to(upstream: &Arc<Upstream>, outlets: &Outlets, member: &mut OpenedLink) {
    while let Some(event) = member.events.recv().await {
        match event {
            LinkEvent::Notification(_, notification) => {
                if let Some(owner) = member.owner.as_ref().filter(|_| !is_list_change(&notification.method)) {
                    outlets.listeners.take(upstream, member.lane, Some(owner), &notification);
                }
            }
            LinkEvent::Ask(_, ask, reply) => answer(upstream, member.starter.as_ref(), ask, reply),
            LinkEvent::Closed(_) => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_started_again_until_it_ends() {
        let turns = AtomicUsize::new(0);
        let turn = || async { assert!(turns.fetch_add(1, Ordering::Relaxed) >= 2, "not yet") };
        restart_on_panic(turn).await;
        assert_eq!(turns.load(Ordering::Relaxed), 3);
    }
}
