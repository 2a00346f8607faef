//! The seat of an upstream that connects to the gateway itself: the gateway does not open its links, but receives them
//! here.

use std::fmt;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use toolyard_model::BoxFuture;
use toolyard_proto::{Reason, Revision};

use crate::plan::{AfterLoss, Connect, Connected};

#[derive(Default)]
pub struct Seat {
    state: Mutex<SeatState>,
    taken: Notify,
}

#[derive(Default)]
struct SeatState {
    arrived: Option<Connected>,
    has_left: bool,
}

impl Seat {
    fn state(&self) -> MutexGuard<'_, SeatState> {
        self.state.lock()
    }

    /// Hands a link over; the caller must wake the upstream afterwards. A previous link that was not taken is dropped.
    pub fn take(&self, connected: Connected) {
        let mut state = self.state();
        state.has_left = false;
        let old = state.arrived.replace(connected);
        drop(state);
        drop(old);
        self.taken.notify_waiters();
    }

    /// Waits until a link is handed over. Safe to drop while it waits.
    pub(crate) async fn arrival(&self) -> Connected {
        loop {
            let taken = self.taken.notified();
            let arrived = self.state().arrived.take();
            match arrived {
                Some(arrived) => return arrived,
                None => taken.await,
            }
        }
    }

    /// The app has been reached again, so it is not gone.
    pub(crate) fn is_back(&self) {
        self.state().has_left = false;
    }

    /// The app has announced that it leaves for good: its entries are removed from the lists as soon as its link ends.
    pub fn goodbye(&self) {
        self.state().has_left = true;
    }

    pub fn has_left(&self) -> bool {
        self.state().has_left
    }
}

impl Connect for Seat {
    fn connect(&self, _: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let arrived = self.state().arrived.take();
        Box::pin(async {
            arrived.ok_or_else(|| Reason::new("it is not connected").with_hint("check that it is running"))
        })
    }

    fn after_loss(&self) -> AfterLoss {
        let state = self.state();
        if state.has_left && state.arrived.is_none() { AfterLoss::Gone } else { AfterLoss::Await }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seat")
    }
}
