//! What a client leaves before it is gone: a session it does not need for now, a resource it watched.

use std::sync::Arc;
use std::time::Instant;

use tokio::time::timeout;

use super::owner::Owner;
use super::pool::{LAST_CALLS, LOOK, Pool};
use super::session::Session;
use crate::{ClientKey, Origin};

impl Pool {
    /// Ends a client's session once no call is under way in it; its next call opens another.
    pub(crate) fn leave(&self, client: &ClientKey) {
        let owner = Owner::Client(client.clone());
        self.lost().remove(&owner);
        let slot = self.remove(&owner, |slot| slot.get().is_some());
        let Some(session) = slot.and_then(|slot| slot.get().cloned()) else { return };
        let scope = self.parts.scope.clone();
        self.parts.scope.spawn(async move {
            let unused = async {
                while session.idle(Instant::now()).is_none() {
                    tokio::time::sleep(LOOK).await;
                }
            };
            let _ = timeout(LAST_CALLS, unused).await;
            session.say_goodbye(&scope);
        });
    }

    /// A client wants to hear no more of a resource. The upstream is told if nobody in its session does.
    pub(crate) async fn unsubscribe(&self, origin: &Arc<Origin>, uri: &str) {
        let owner = Owner::of(origin);
        if let Some(session) = self.released(&owner, &origin.client, uri) {
            // What is being set up again must not come after it.
            session.set_up().await;
            session.unsubscribe(origin, uri).await;
        }
    }

    /// The session in which nobody wants it any more.
    fn released(&self, owner: &Owner, client: &ClientKey, uri: &str) -> Option<Arc<Session>> {
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
