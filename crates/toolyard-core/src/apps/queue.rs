//! Limits the calls in flight at one app. Further calls are queued, and their clients are informed; calls beyond
//! that are refused, so that a slow app uses a limited amount of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use toolyard_model::Peer;
use toolyard_proto::{CallError, Method, Notification, Raw};

/// How many bytes the unanswered calls of one app may hold.
const ROOM: usize = 64 * 1024 * 1024;
/// How often the client of a queued call is informed.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Progress must increase, so the progress of a queued call stays below the progress that the app reports later.
const TINY: f64 = 1e-6;

pub(super) struct Queue {
    turns: Arc<Semaphore>,
    at_once: usize,
    most: usize,
    waiting: AtomicUsize,
    room: Arc<Semaphore>,
}

impl Queue {
    pub(super) fn new(at_once: usize, most: usize) -> Self {
        let (turns, room) = (Arc::new(Semaphore::new(at_once)), Arc::new(Semaphore::new(ROOM)));
        Self { turns, at_once, most, waiting: AtomicUsize::new(0), room }
    }

    /// Calls that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Reserves room for the bytes of a call until it has ended. A call that is larger than the whole room can run
    /// alone.
    pub(super) fn room(&self, app: &str, bytes: usize) -> Result<OwnedSemaphorePermit, CallError> {
        let wanted = u32::try_from(bytes.min(ROOM)).unwrap_or(u32::MAX);
        self.room.clone().try_acquire_many_owned(wanted).map_err(|_| {
            CallError::limit(format!(
                "app `{app}` has calls of {} MiB that it has not answered yet; try again in a moment",
                ROOM / 1024 / 1024
            ))
        })
    }

    /// Waits for a turn, which is held until the call has ended.
    pub(super) async fn turn(
        &self,
        app: &str,
        peer: &Peer,
        token: Option<&Raw>,
    ) -> Result<OwnedSemaphorePermit, CallError> {
        if let Ok(turn) = self.turns.clone().try_acquire_owned() {
            return Ok(turn);
        }
        let place = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&self.waiting);
        if place >= self.most {
            return Err(CallError::limit(format!(
                "app `{app}` has {} calls under way and {place} waiting; try again in a moment",
                self.at_once
            )));
        }
        self.wait(app, place, peer, token).await
    }

    async fn wait(
        &self,
        app: &str,
        place: usize,
        peer: &Peer,
        token: Option<&Raw>,
    ) -> Result<OwnedSemaphorePermit, CallError> {
        let since = Instant::now();
        let turn = self.turns.clone().acquire_owned();
        tokio::pin!(turn);
        loop {
            tokio::select! {
                turn = &mut turn => {
                    return turn.map_err(|_| CallError::unavailable(format!("app `{app}` is not connected")));
                }
                () = tokio::time::sleep(REPORT_INTERVAL) => {
                    let Some(token) = token else { continue };
                    let waited = since.elapsed();
                    let message = format!(
                        "waiting for its turn at app `{app}` for {} s: {} calls under way, {place} ahead in the queue",
                        waited.as_secs(), self.at_once
                    );
                    peer.notify(progress(token, waited.as_secs_f64() * TINY, &message));
                }
            }
        }
    }
}

fn progress(token: &Raw, progress: f64, message: &str) -> Notification {
    let params = serde_json::json!({ "progressToken": token, "progress": progress, "message": message });
    Notification::new(Method::PROGRESS, Raw::from(params))
}

struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn beyond_the_queue_a_call_is_refused_and_may_be_tried_again() {
        let queue = Queue::new(1, 1);
        let peer = Peer::none();
        let first = queue.turn("a", &peer, None).await.unwrap();
        let mut second = Box::pin(queue.turn("a", &peer, None));
        assert!(tokio::time::timeout(Duration::from_secs(2), &mut second).await.is_err());
        let third = queue.turn("a", &peer, None).await.unwrap_err();
        assert!(third.message().contains("1 calls under way and 1 waiting"), "{third}");
        assert_eq!(third.retry, toolyard_proto::Retry::Always);
        drop(first);
        let second = second.await.unwrap();
        assert_eq!(queue.waiting(), 0);
        drop(second);
        assert!(queue.turn("a", &peer, None).await.is_ok());
    }

    #[test]
    fn calls_hold_only_so_many_bytes_and_a_large_one_may_be_alone() {
        let queue = Queue::new(1, 1);
        let large = queue.room("a", 2 * ROOM).unwrap();
        let refused = queue.room("a", 1).unwrap_err();
        assert_eq!((refused.label(), refused.retry), ("limit", toolyard_proto::Retry::Always));
        drop(large);
        let halves = [queue.room("a", ROOM / 2).unwrap(), queue.room("a", ROOM / 2).unwrap()];
        assert!(queue.room("a", 1).is_err());
        drop(halves);
        assert!(queue.room("a", 1).is_ok());
    }
}
