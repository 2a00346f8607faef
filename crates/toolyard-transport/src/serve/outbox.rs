//! Notifications of one modern call, waiting for its stream to take them. Costs nothing until the first one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use toolyard_proto::{Method, Notification};

use super::rendered::Rendered;

/// How many may wait. Beyond that the newest progress and log messages are dropped; the rare others have as
/// much room again.
pub(crate) const ROOM: usize = 256;

/// Whether a message may be lost when the client reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Light,
    Heavy,
}

impl Weight {
    pub(crate) fn of(method: &Method) -> Self {
        if *method == Method::PROGRESS || *method == Method::LOG { Self::Light } else { Self::Heavy }
    }

    pub(crate) fn room(self) -> usize {
        match self {
            Self::Light => ROOM,
            Self::Heavy => 2 * ROOM,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Outbox(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Rendered>,
    waker: Option<Waker>,
}

impl Outbox {
    /// Whether there was room.
    pub(crate) fn push(&self, notification: Notification) -> bool {
        let weight = Weight::of(&notification.method);
        let mut state = self.state();
        if state.queue.len() >= weight.room() {
            return false;
        }
        state.queue.push_back(Rendered::notification(notification));
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
        std::mem::take(&mut self.state().queue)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
