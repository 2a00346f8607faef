//! What is watched in a session that the upstream has lost is watched in another, also where its clients call
//! nothing meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::memory::Memory;
use super::pool::Pool;
use super::session::Session;
use crate::Origin;

/// How long after the loss another session is opened, and how long after that it is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Pool {
    /// Looks after what is watched in this session, once, until it is over.
    pub(super) fn keep_watched(self: &Arc<Self>, session: &Arc<Session>, origin: &Arc<Origin>) {
        if !session.is_watched.swap(true, Ordering::Relaxed) {
            self.parts.scope.spawn(watch(self.clone(), session.clone(), origin.clone()));
        }
    }

    /// Whether something was watched in a lost session, and no other stands in its place.
    fn is_missed(&self, session: &Session) -> bool {
        self.lost().get(&session.owner).is_some_and(Memory::has_subscribers)
    }
}

async fn watch(pool: Arc<Pool>, session: Arc<Session>, origin: Arc<Origin>) {
    session.scope.ended().await;
    // One that was ended on purpose is not in its place any more, and leaves nothing.
    pool.discard(&session);
    let mut pause = FIRST_PAUSE;
    loop {
        sleep(pause).await;
        if !pool.is_missed(&session) {
            return;
        }
        // The next one is looked after by whoever opens it.
        let _ = timeout(pool.parts.connect, pool.session(&origin)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
