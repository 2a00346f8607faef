//! The sessions of a link: one per owner, opened when first needed, ended when idle, forgotten or too many.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::unfold;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OnceCell, mpsc};
use tokio::time::timeout;
use toolyard_model::{ClientKey, Origin, Scope};
use toolyard_proto::{CallError, Message, Method, Notification};

use super::memory::Memory;
use super::owner::Owner;
use super::session::{Errand, Ground, OpenError, UpstreamSession};
use crate::events::Events;
use crate::http::upstream::HttpUpstream;
use crate::probe::Offer;

const MAX_SESSIONS: usize = 1000;
/// How many cancels and notifications may wait; beyond that they are dropped.
const ERRANDS: usize = 1024;
/// How many of them are under way at once.
const RUNNERS: usize = 16;
/// How long closing may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// How long calls under way may continue after the link is released, and how often they are checked.
pub(super) const LAST_CALLS: Duration = Duration::from_hours(1);
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// How long the gateway's own session stays lost before another is opened.
const RELISTEN: Duration = Duration::from_secs(5);

const CHANGES: [(&str, Method); 3] = [
    ("tools", Method::TOOLS_CHANGED),
    ("prompts", Method::PROMPTS_CHANGED),
    ("resources", Method::RESOURCES_CHANGED),
];

/// The parts that a pool is made of.
pub(crate) struct PoolParts {
    pub(crate) upstream: Arc<HttpUpstream>,
    /// How the gateway introduces itself.
    pub(crate) offer: Offer,
    pub(crate) events: Events,
    pub(crate) scope: Scope,
    /// How long opening the gateway's own session may take.
    pub(crate) connect: Duration,
    /// How long a session may go unused.
    pub(crate) idle: Duration,
}

pub(crate) struct Pool {
    pub(super) parts: PoolParts,
    errands: mpsc::Sender<Errand>,
    slots: Mutex<HashMap<Owner, Arc<SessionSlot>>>,
    /// The settings of sessions that were lost, until others are opened in their place.
    lost: Mutex<HashMap<Owner, Memory>>,
}

/// A session that exists or is being opened; all calls of its owner wait for the same one.
pub(super) type SessionSlot = OnceCell<Arc<UpstreamSession>>;

impl Pool {
    /// Opens the gateway's own session, and the pool with it.
    pub(crate) async fn open(parts: PoolParts) -> Result<(Arc<Self>, Arc<UpstreamSession>), OpenError> {
        let (errands, waiting) = mpsc::channel(ERRANDS);
        let pool = Arc::new(Self { parts, errands, slots: Mutex::default(), lost: Mutex::default() });
        let offer = &pool.parts.offer;
        let session = UpstreamSession::open(pool.ground(), Owner::Gateway, None, offer).await?;
        pool.lock().insert(Owner::Gateway, Arc::new(OnceCell::new_with(Some(session.clone()))));
        pool.parts.scope.spawn(run_errands(waiting));
        pool.parts.scope.spawn(end_idle(pool.clone()));
        pool.parts.scope.spawn(keep_listening(pool.clone(), session.clone()));
        Ok((pool, session))
    }

    fn ground(&self) -> Ground<'_> {
        let PoolParts { upstream, events, scope, .. } = &self.parts;
        Ground { upstream, events, scope, errands: &self.errands }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Owner, Arc<SessionSlot>>> {
        self.slots.lock()
    }

    pub(super) fn lost(&self) -> MutexGuard<'_, HashMap<Owner, Memory>> {
        self.lost.lock()
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.parts.upstream.name
    }

    /// Whether the gateway's own session has a stream of unasked messages, or may still get one.
    pub(crate) fn announces_changes(&self) -> bool {
        let slot = self.lock().get(&Owner::Gateway).cloned();
        slot.and_then(|slot| slot.get().cloned()).is_none_or(|session| session.has_inbox())
    }

    /// The session for calls of `origin`.
    pub(crate) async fn session(
        self: &Arc<Self>,
        origin: &Arc<Origin>,
    ) -> Result<Arc<UpstreamSession>, CallError> {
        let owner = Owner::of(origin);
        let slot = self.slot(&owner)?;
        let held = WaitingCall { pool: self, owner: &owner, slot };
        let open = async || {
            let (ground, principal) = (self.ground(), Some(&origin.principal));
            let session =
                UpstreamSession::open(ground, owner.clone(), principal, &self.offer(origin)).await?;
            if self.has(&owner, &held.slot) {
                if let Some(memory) = self.lost().remove(&owner) {
                    session.inherit(memory, origin);
                    self.keep_watched(&session, origin);
                }
                return Ok(session);
            }
            // While it was opened, its client has disconnected or the link was closed: no other code would end it.
            session.say_goodbye(&self.parts.scope);
            Err(OpenError::Call(CallError::unavailable("the client is gone")))
        };
        let opened = Box::pin(held.slot.get_or_try_init(open)).await;
        let session = opened.cloned().map_err(|error| error.to_call_error(&self.parts.upstream))?;
        session.set_up().await;
        Ok(session)
    }

    fn has(&self, owner: &Owner, slot: &Arc<SessionSlot>) -> bool {
        self.lock().get(owner).is_some_and(|now| Arc::ptr_eq(now, slot))
    }

    fn offer(&self, origin: &Origin) -> Offer {
        let client_info = origin.client_info.clone().unwrap_or_else(|| self.parts.offer.client_info.clone());
        match origin.client {
            ClientKey::Gateway => self.parts.offer.clone(),
            _ => Offer { capabilities: origin.capabilities.clone(), client_info },
        }
    }

    fn slot(&self, owner: &Owner) -> Result<Arc<SessionSlot>, CallError> {
        let mut slots = self.lock();
        if let Some(slot) = slots.get(owner) {
            return Ok(slot.clone());
        }
        if slots.len() >= MAX_SESSIONS {
            slots.retain(|_, slot| !is_left_empty(slot));
        }
        let mut evicted = None;
        if slots.len() >= MAX_SESSIONS {
            evicted = longest_idle(&slots).and_then(|owner| slots.remove(&owner));
            if evicted.is_none() {
                let message = format!("{MAX_SESSIONS} sessions with upstream `{}` are in use", self.name());
                return Err(CallError::limit(message).at(self.name()));
            }
        }
        let slot = Arc::new(SessionSlot::new());
        slots.insert(owner.clone(), slot.clone());
        // `lost` is always locked before `slots`.
        drop(slots);
        self.keep_level(evicted.as_ref());
        self.say_goodbye(evicted);
        Ok(slot)
    }

    pub(super) fn remove(
        &self,
        owner: &Owner,
        condition: impl FnOnce(&Arc<SessionSlot>) -> bool,
    ) -> Option<Arc<SessionSlot>> {
        let mut slots = self.lock();
        if slots.get(owner).is_some_and(condition) { slots.remove(owner) } else { None }
    }

    /// The upstream no longer knows this session. Its settings and subscriptions are set up again in the next one.
    pub(crate) fn discard(&self, session: &Arc<UpstreamSession>) {
        session.retire();
        let mut lost = self.lost();
        let is_it = |slot: &Arc<SessionSlot>| slot.get().is_some_and(|now| Arc::ptr_eq(now, session));
        if self.remove(&session.owner, is_it).is_some() {
            let memory = std::mem::take(&mut session.lock().memory);
            if !memory.is_empty() {
                lost.insert(session.owner.clone(), memory);
            }
        }
    }

    /// A session was opened in place of one that the upstream has forgotten, as it does when it is restarted. Its lists
    /// may be others now. The loss of a stream of its own shows that to the gateway; without one, nothing else does.
    pub(crate) fn session_was_lost(&self, next: &UpstreamSession) {
        if next.owner != Owner::Gateway && !self.announces_changes() {
            self.announce_changes(next);
        }
    }

    fn announce_changes(&self, session: &UpstreamSession) {
        for (capability, change) in CHANGES {
            if session.greeting().capabilities.member(capability).is_some() {
                self.parts.events.notify(None, Notification::new(change, None));
            }
        }
    }

    /// A client whose session made room for another keeps its log level.
    fn keep_level(&self, evicted: Option<&Arc<SessionSlot>>) {
        let Some(session) = evicted.and_then(|slot| slot.get()) else { return };
        let memory = std::mem::take(&mut session.lock().memory);
        if matches!(session.owner, Owner::Client(_)) && !memory.is_empty() {
            self.lost().insert(session.owner.clone(), memory);
        }
    }

    /// Ends a session in the background.
    fn say_goodbye(&self, slot: Option<Arc<SessionSlot>>) {
        if let Some(session) = slot.and_then(|slot| slot.get().cloned()) {
            session.say_goodbye(&self.parts.scope);
        }
    }

    pub(crate) fn forget(&self, client: &ClientKey) {
        let owner = Owner::Client(client.clone());
        self.lost().remove(&owner);
        let slot = self.remove(&owner, |_| true);
        self.say_goodbye(slot);
    }

    /// Passes a client's notification on, if that client has a session.
    pub(crate) fn notify(&self, origin: &Origin, notification: Notification) {
        let slot = self.lock().get(&Owner::of(origin)).cloned();
        let Some(session) = slot.and_then(|slot| slot.get().cloned()) else { return };
        let _ = self.errands.try_send(Errand { session, message: Message::Notification(notification) });
    }

    /// Ends every session and the link.
    pub(crate) async fn close(&self) {
        let slots: Vec<_> = self.lock().drain().collect();
        let sessions: Vec<_> = slots.iter().filter_map(|(_, slot)| slot.get()).collect();
        for session in &sessions {
            session.retire();
        }
        let _ = timeout(GOODBYE, join_all(sessions.iter().map(|session| session.delete()))).await;
        let reason = self.parts.upstream.reason("was closed by the gateway");
        self.parts.events.closed_soon(reason).await;
        self.parts.scope.cancel();
    }

    /// The same in the background, once no call is under way.
    pub(crate) fn close_when_unused(self: &Arc<Self>) {
        let pool = self.clone();
        self.parts.scope.spawn(async move {
            let unused = async {
                while pool.is_used() {
                    tokio::time::sleep(LOOK).await;
                }
            };
            let _ = timeout(LAST_CALLS, unused).await;
            pool.close().await;
        });
    }

    fn is_used(&self) -> bool {
        let now = Instant::now();
        let is_used = |slot: &Arc<SessionSlot>| match slot.get() {
            Some(session) => session.idle(now).is_none(),
            None => !is_left_empty(slot),
        };
        self.lock().values().any(is_used)
    }

    /// The link has been dropped.
    pub(crate) fn abandon(&self) {
        self.parts.scope.cancel();
    }

    fn end_idle_now(&self) {
        let now = Instant::now();
        let idle = |slot: &Arc<SessionSlot>| {
            let Some(session) = slot.get() else { return is_left_empty(slot) };
            let too_long = session.idle(now).is_some_and(|idle| idle >= self.parts.idle);
            too_long && session.may_end()
        };
        let gone: Vec<_> = self.lock().extract_if(|_, slot| idle(slot)).collect();
        for (_, slot) in gone {
            self.say_goodbye(Some(slot));
        }
    }
}

/// A slot that a call waits for. The last one to leave it, also by giving up, removes it if it is empty.
struct WaitingCall<'a> {
    pool: &'a Pool,
    owner: &'a Owner,
    slot: Arc<SessionSlot>,
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        // One for the pool and one for us: others are handed out only under the lock of the pool.
        let is_left = |now: &Arc<SessionSlot>| {
            Arc::ptr_eq(now, &self.slot) && now.get().is_none() && Arc::strong_count(now) <= 2
        };
        if self.slot.get().is_none() {
            self.pool.remove(self.owner, is_left);
        }
    }
}

/// Two calls that gave up at the same moment may each have left the removal to the other.
fn is_left_empty(slot: &Arc<SessionSlot>) -> bool {
    slot.get().is_none() && Arc::strong_count(slot) == 1
}

/// Only of those without subscriptions: a client that only listens would not notice the loss.
fn longest_idle(slots: &HashMap<Owner, Arc<SessionSlot>>) -> Option<Owner> {
    let now = Instant::now();
    let may_go = |session: &&Arc<UpstreamSession>| {
        session.owner != Owner::Gateway && !session.lock().memory.has_subscribers()
    };
    let sessions = slots.iter().filter_map(|(owner, slot)| Some((owner, slot.get().filter(may_go)?)));
    let idle = sessions.filter_map(|(owner, session)| Some((session.idle(now)?, owner)));
    idle.max_by_key(|(idle, _)| *idle).map(|(_, owner)| owner.clone())
}

async fn end_idle(pool: Arc<Pool>) {
    loop {
        tokio::time::sleep(pool.parts.idle / 4).await;
        pool.end_idle_now();
    }
}

/// Receives changes in the gateway's own session. When that session is lost, the gateway opens another one and treats
/// all lists as changed, because notifications may have been missed in between.
async fn keep_listening(pool: Arc<Pool>, mut session: Arc<UpstreamSession>) {
    let origin = pool.parts.offer.origin();
    loop {
        session.scope.ended().await;
        tokio::time::sleep(RELISTEN).await;
        pool.discard(&session);
        if let Ok(Ok(next)) = timeout(pool.parts.connect, pool.session(&origin)).await {
            session = next;
            pool.announce_changes(&session);
        }
    }
}

/// Sends the messages without an answer, a bounded number at a time.
async fn run_errands(waiting: mpsc::Receiver<Errand>) {
    let errands = unfold(waiting, async |mut waiting| waiting.recv().await.map(|errand| (errand, waiting)));
    errands
        .for_each_concurrent(RUNNERS, async |Errand { session, message }| {
            let _ = session.deliver(&message).await;
        })
        .await;
}
