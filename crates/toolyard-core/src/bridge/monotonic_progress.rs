//! Progress of a call that consists of several requests: each may begin at zero, but the client receives only
//! increasing values.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use toolyard_model::{Ask, AskError, Back, BoxFuture, Peer};
use toolyard_proto::{Method, Notification, Raw};

/// The way back of all rounds of one call.
pub(crate) fn monotonic(peer: &Peer) -> Peer {
    Peer::new(Arc::new(Monotonic { peer: peer.clone(), highest: Mutex::new(f64::NEG_INFINITY) }))
}

struct Monotonic {
    peer: Peer,
    highest: Mutex<f64>,
}

impl Monotonic {
    /// Whether this is an increase; a notification without a number is passed on.
    fn rises(&self, notification: &Notification) -> bool {
        let progress = notification.params.as_ref().and_then(|params| params.member("progress")?.read().ok());
        let Some(progress) = progress.filter(|_| notification.method == Method::PROGRESS) else {
            return true;
        };
        let mut highest = self.highest.lock();
        let rises = progress > *highest;
        *highest = highest.max(progress);
        rises
    }
}

impl Back for Monotonic {
    fn notify(&self, notification: Notification) {
        if self.rises(&notification) {
            self.peer.notify(notification);
        }
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        self.peer.ask(ask)
    }

    fn alive(&self) {
        self.peer.alive();
    }

    fn hang_up(&self, come_back_after: Duration) {
        self.peer.hang_up(come_back_after);
    }
}
