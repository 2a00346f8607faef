//! Counts the calls in flight and the bytes that they hold, so that the memory for an upstream that answers nothing is
//! bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use toolyard_proto::CallError;

use super::Upstream;

/// How many bytes the unanswered calls of one upstream may hold.
const ROOM: usize = 128 * 1024 * 1024;
/// Calls up to this size have the same amount of room reserved for them, so that large calls never block them.
const SMALL: usize = 64 * 1024;

/// The calls whose answers have not ended. Every call touches this, so there is no lock.
#[derive(Default)]
pub(super) struct Flights {
    calls: AtomicUsize,
    bytes: AtomicUsize,
    ended: Notify,
    /// When a call last began or ended, in seconds since 1970; zero for never.
    active_at: AtomicU64,
}

impl Flights {
    fn touch(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.active_at.store(now.as_secs(), Ordering::Relaxed);
    }

    /// Waits until no call is in flight.
    pub(super) async fn drained(&self) {
        loop {
            let ended = self.ended.notified();
            if self.calls.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }
}

impl Upstream {
    /// Counts a call, and the bytes that it holds, until the guard is dropped, which is when its answer has really
    /// ended. A call that finds no room is refused; one that is larger than the room may run alone.
    pub(crate) fn begin(self: &Arc<Self>, bytes: usize) -> Result<InFlight, CallError> {
        let flights = &self.flights;
        flights.calls.fetch_add(1, Ordering::AcqRel);
        let before = flights.bytes.fetch_add(bytes, Ordering::AcqRel);
        let in_flight = InFlight { upstream: self.clone(), bytes };
        let room = if bytes <= SMALL { 2 * ROOM } else { ROOM };
        if before > 0 && before.saturating_add(bytes) > room {
            let message = format!(
                "upstream `{}` has calls of {} MiB that it has not answered yet; try again in a moment",
                self.id,
                ROOM / 1024 / 1024
            );
            return Err(CallError::limit(message).at(&self.name));
        }
        flights.touch();
        Ok(in_flight)
    }

    /// How many calls are in flight.
    pub fn calls(&self) -> usize {
        self.flights.calls.load(Ordering::Acquire)
    }

    /// When a call last began or ended.
    pub fn last_activity(&self) -> Option<SystemTime> {
        let seconds = self.flights.active_at.load(Ordering::Relaxed);
        (seconds > 0).then(|| UNIX_EPOCH + Duration::from_secs(seconds))
    }

    /// Whether the upstream may be silent because it is working on a call. After a call has timed out, this no longer
    /// counts until the upstream has answered something.
    pub(super) fn is_working(&self) -> bool {
        self.calls() > 0 && !self.life.is_unanswered()
    }
}

/// One call in flight.
pub(crate) struct InFlight {
    upstream: Arc<Upstream>,
    bytes: usize,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let flights = &self.upstream.flights;
        flights.touch();
        flights.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        if flights.calls.fetch_sub(1, Ordering::AcqRel) == 1 {
            flights.ended.notify_waiters();
        }
    }
}
