//! The waker of one connection, which can be muted while a piece is taken from a response's body.
//!
//! Taking a piece makes hyper wake the task that drives the connection. That task is the one that takes the piece, and
//! it drives the connection anyway when no piece is left, so the wake would only cost another poll. The wake is dropped
//! here, at its source: no other waker has received it, so nothing between the connection and the task (a
//! `FuturesUnordered`, for example) can mistake it for a wake that was passed on. Only the thread that takes the piece
//! is muted; a wake by the socket comes from another thread.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};

use futures_util::task::AtomicWaker;

thread_local! {
    static IS_MUTED: Cell<bool> = const { Cell::new(false) };
}

/// Wakes the caller that polled last.
pub(super) struct QuietWaker {
    caller: Arc<CallerWaker>,
    waker: Waker,
}

#[derive(Default)]
struct CallerWaker(AtomicWaker);

impl QuietWaker {
    pub(super) fn new() -> Self {
        let caller = Arc::<CallerWaker>::default();
        Self { waker: Waker::from(caller.clone()), caller }
    }

    /// The waker to poll the connection with; it wakes `caller` from now on.
    pub(super) fn on_behalf_of(&self, caller: &Waker) -> &Waker {
        self.caller.0.register(caller);
        &self.waker
    }

    /// Wakes nothing until it is used again.
    pub(super) fn release(&self) {
        drop(self.caller.0.take());
    }
}

impl Wake for CallerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !IS_MUTED.get() {
            self.0.wake();
        }
    }
}

/// Runs `f`; connections that it wakes on this thread do not pass the wake on.
pub(super) fn muted<T>(f: impl FnOnce() -> T) -> T {
    let _restore = Restore(IS_MUTED.replace(true));
    f()
}

/// Restores the previous setting, also after a panic: the thread continues to serve others.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        IS_MUTED.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How often the caller is woken by `wakes`.
    fn check(wakes: impl FnOnce(&Waker), expected: usize) {
        let (count, quiet) = (Arc::<Count>::default(), QuietWaker::new());
        wakes(quiet.on_behalf_of(&Waker::from(count.clone())));
        assert_eq!(count.0.load(Ordering::SeqCst), expected);
    }

    #[test]
    fn only_the_muted_thread_is_muted_and_only_for_as_long() {
        check(Waker::wake_by_ref, 1);
        check(|waker| muted(|| waker.wake_by_ref()), 0);
        check(
            |waker| {
                muted(|| ());
                waker.wake_by_ref();
            },
            1,
        );
        check(
            |waker| {
                let waker = waker.clone();
                muted(|| std::thread::spawn(move || waker.wake()).join().unwrap());
            },
            1,
        );
    }

    #[test]
    fn a_panic_does_not_leave_a_thread_muted() {
        assert!(std::panic::catch_unwind(|| muted(|| panic!("on purpose"))).is_err());
        check(Waker::wake_by_ref, 1);
    }

    #[test]
    fn a_released_waker_wakes_no_task() {
        let (count, quiet) = (Arc::<Count>::default(), QuietWaker::new());
        let waker = quiet.on_behalf_of(&Waker::from(count.clone())).clone();
        quiet.release();
        waker.wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        assert_eq!(Arc::strong_count(&count), 1);
    }
}
