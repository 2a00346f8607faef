//! The queue of notifications for the stream of one modern call. Allocates nothing before the first notification.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use toolyard_proto::{Method, Notification};

use super::reply::Rendered;

/// How many may wait. Beyond that the newest progress and log messages are dropped; the other, rare ones have as
/// much room again.
pub(crate) const ROOM: usize = 256;

/// How many bytes may wait before progress and log messages are dropped, and before anything is.
const LIGHT_BYTES: usize = 4 * 1024 * 1024;
const ALL_BYTES: usize = 64 * 1024 * 1024;

/// Whether a message may be dropped if the client reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Light,
    Heavy,
}

impl Weight {
    pub(crate) fn of(method: &Method) -> Self {
        if *method == Method::PROGRESS || *method == Method::LOG { Self::Light } else { Self::Heavy }
    }

    /// Whether another message may join `waiting` messages of `bytes` bytes in total.
    pub(crate) fn fits(self, waiting: usize, bytes: usize) -> bool {
        match self {
            Self::Light => waiting < ROOM && bytes < LIGHT_BYTES,
            Self::Heavy => waiting < 2 * ROOM && bytes < ALL_BYTES,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Outbox(Mutex<OutboxState>);

#[derive(Debug, Default)]
struct OutboxState {
    queue: VecDeque<Rendered>,
    bytes: usize,
    waker: Option<Waker>,
}

impl Outbox {
    /// Whether there was room.
    pub(crate) fn push(&self, notification: Notification) -> bool {
        let weight = Weight::of(&notification.method);
        let mut state = self.state();
        if !weight.fits(state.queue.len(), state.bytes) {
            return false;
        }
        let message = Rendered::notification(notification);
        state.bytes += message.len();
        state.queue.push_back(message);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().queue.is_empty()
    }

    /// Ready when something waits.
    pub(crate) fn poll_filled(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if !state.queue.is_empty() {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    pub(crate) fn take(&self) -> VecDeque<Rendered> {
        let mut state = self.state();
        state.bytes = 0;
        std::mem::take(&mut state.queue)
    }

    fn state(&self) -> MutexGuard<'_, OutboxState> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_large_messages_fill_it_too() {
        let outbox = Outbox::default();
        let message = |method: Method| {
            let params = serde_json::json!({ "message": "x".repeat(1024 * 1024) });
            Notification::new(method, toolyard_proto::Raw::from(params))
        };
        for _ in 0..2 {
            let taken = (0..10).filter(|_| outbox.push(message(Method::PROGRESS))).count();
            assert_eq!(taken, 4);
            assert!(outbox.push(message(Method::TOOLS_CHANGED)), "what must not be lost has more room");
            outbox.take();
        }
    }
}
