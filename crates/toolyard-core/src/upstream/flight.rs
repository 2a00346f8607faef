//! The calls that an upstream has not answered: how many there are, what they hold, and when the last one ends.
//! A slow upstream costs no more memory than there is room for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use toolyard_proto::CallError;

use super::Upstream;

/// How many bytes the calls of one upstream may hold that it has not answered yet.
const ROOM: usize = 128 * 1024 * 1024;
/// Calls up to this size have as much room again to themselves: large ones never keep them out.
const SMALL: usize = 64 * 1024;

impl Upstream {
    /// Counts a call, and the bytes that it holds, until the guard is dropped, which is when its answer has really
    /// ended. Where others hold too many already it is refused; one that is larger than all may be alone.
    pub(crate) fn begin(self: &Arc<Self>, bytes: usize) -> Result<InFlight, CallError> {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        let before = self.holding.fetch_add(bytes, Ordering::AcqRel);
        let in_flight = InFlight { upstream: self.clone(), bytes };
        let room = if bytes <= SMALL { 2 * ROOM } else { ROOM };
        if before > 0 && before.saturating_add(bytes) > room {
            let message = format!(
                "upstream `{}` has calls of {} MiB that it has not answered yet; try again in a moment",
                self.plan.id,
                ROOM / 1024 / 1024
            );
            return Err(CallError::limit(message).at(&self.name));
        }
        self.touch();
        Ok(in_flight)
    }

    fn touch(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.active_at.store(now.as_secs(), Ordering::Relaxed);
    }

    /// When it was last called or answered.
    pub fn last_activity(&self) -> Option<SystemTime> {
        let seconds = self.active_at.load(Ordering::Relaxed);
        (seconds > 0).then(|| UNIX_EPOCH + Duration::from_secs(seconds))
    }

    /// Waits until no call is in flight.
    pub(super) async fn idle(&self) {
        loop {
            let drained = self.drained.notified();
            if self.in_flight.load(Ordering::Acquire) == 0 {
                return;
            }
            drained.await;
        }
    }
}

/// One call under way.
pub(crate) struct InFlight {
    upstream: Arc<Upstream>,
    bytes: usize,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let upstream = &self.upstream;
        upstream.touch();
        upstream.holding.fetch_sub(self.bytes, Ordering::AcqRel);
        if upstream.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            upstream.drained.notify_waiters();
        }
    }
}
