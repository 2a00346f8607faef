//! Releases what a client has set up before it disconnects: a session that it does not need for now, or a subscription.

use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio::time::timeout;
use toolyard_model::{ClientKey, Origin};

use super::owner::Owner;
use super::pool::{LAST_CALLS, LOOK, Pool, SessionSlot};
use super::session::UpstreamSession;

impl Pool {
    /// Ends a client's session once no call is under way in it; its next call opens another.
    pub(crate) fn leave(self: &Arc<Self>, client: &ClientKey) {
        let owner = Owner::Client(client.clone());
        self.lost().remove(&owner);
        let Some(slot) = self.lock().get(&owner).map(Arc::downgrade) else { return };
        let pool = self.clone();
        if let Some(session) = opened(&slot) {
            self.remove(&owner, |now| is_in(now, &session));
            return self.parts.scope.spawn(async move { pool.end_unused(session).await });
        }
        self.parts.scope.spawn(async move {
            // A call is opening it, and must not be cut off.
            let Ok(Some(session)) = timeout(LAST_CALLS, opening(&slot)).await else { return };
            let is_back = session.lock().memory.has_subscribers();
            if !is_back && pool.remove(&owner, |now| is_in(now, &session)).is_some() {
                pool.end_unused(session).await;
            }
        });
    }

    async fn end_unused(&self, session: Arc<UpstreamSession>) {
        let unused = async {
            while session.idle(Instant::now()).is_none() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let _ = timeout(LAST_CALLS, unused).await;
        session.say_goodbye(&self.parts.scope);
    }

    /// A client unsubscribes from a resource. The upstream is unsubscribed if no client of the session is left.
    pub(crate) async fn unsubscribe(&self, origin: &Arc<Origin>, uri: &str) {
        let owner = Owner::of(origin);
        if let Some(session) = self.released(&owner, &origin.client, uri) {
            // Setting it up again must not come after this.
            session.set_up().await;
            session.unsubscribe(origin, uri).await;
        }
    }

    /// The session in which no client is subscribed to it any longer.
    fn released(&self, owner: &Owner, client: &ClientKey, uri: &str) -> Option<Arc<UpstreamSession>> {
        let mut lost = self.lost();
        if let Some(memory) = lost.get_mut(owner) {
            memory.release(uri, client);
            if memory.is_empty() {
                lost.remove(owner);
            }
        }
        let session = self.lock().get(owner).and_then(|slot| slot.get().cloned())?;
        let is_last = session.lock().memory.release(uri, client);
        is_last.then_some(session)
    }
}

fn opened(slot: &Weak<SessionSlot>) -> Option<Arc<UpstreamSession>> {
    slot.upgrade().and_then(|slot| slot.get().cloned())
}

/// Waits for a session that is being opened; returns `None` if the opener gives up.
async fn opening(slot: &Weak<SessionSlot>) -> Option<Arc<UpstreamSession>> {
    while slot.strong_count() > 0 {
        if let Some(session) = opened(slot) {
            return Some(session);
        }
        tokio::time::sleep(LOOK).await;
    }
    None
}

fn is_in(slot: &SessionSlot, session: &Arc<UpstreamSession>) -> bool {
    slot.get().is_some_and(|now| Arc::ptr_eq(now, session))
}
