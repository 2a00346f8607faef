//! Sets up the subscriptions of a lost session in another session, without waiting for the next call of a client.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use toolyard_model::Origin;

use super::memory::{FIRST_PAUSE, LONGEST_PAUSE, Memory};
use super::pool::Pool;
use super::session::UpstreamSession;

impl Pool {
    /// Keeps the subscriptions of this session, with one task, until the session is over.
    pub(super) fn keep_watched(self: &Arc<Self>, session: &Arc<UpstreamSession>, origin: &Arc<Origin>) {
        if !session.is_watched.swap(true, Ordering::Relaxed) {
            self.parts.scope.spawn(watch(self.clone(), session.clone(), origin.clone()));
        }
    }

    /// How long to wait until another session is opened in place of a lost one.
    fn pause_after(&self, session: &UpstreamSession, lasted: Duration) -> Duration {
        self.lost().get_mut(&session.owner).map_or(FIRST_PAUSE, |memory| memory.lost_after(lasted))
    }

    /// Whether a lost session had subscriptions and has not been replaced.
    fn is_missed(&self, session: &UpstreamSession) -> bool {
        self.lost().get(&session.owner).is_some_and(Memory::has_subscribers)
    }
}

async fn watch(pool: Arc<Pool>, session: Arc<UpstreamSession>, origin: Arc<Origin>) {
    let since = Instant::now();
    session.scope.ended().await;
    // A session that was ended on purpose is no longer in the pool, and none of its state is kept.
    pool.discard(&session);
    let mut pause = pool.pause_after(&session, since.elapsed());
    loop {
        sleep(pause).await;
        if !pool.is_missed(&session) {
            return;
        }
        // The task that opens the next session takes over.
        let _ = timeout(pool.parts.connect, pool.session(&origin)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
