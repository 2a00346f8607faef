//! A future that, when it is woken while it runs, runs again at once.
//!
//! Taking a request's body inside the call that serves it wakes the connection's own task every time. Left to
//! the runtime, such a wake puts the task at the end of a queue and rouses another thread to look for work,
//! which costs more than the whole call. Here it is a turn of a loop. And where it is known that nothing waits
//! for the wake, because the body has ended, not even that: see [`hushed`].
//!
//! Whoever hushes wakes again where it matters. So nothing that keeps its parent's waker and hands out wakers of
//! its own (`FuturesUnordered`, or `join_all` over more than 30 futures) may stand between a bell and the body
//! of a request or of an upstream's answer (`Arriving`): of several wakes it passes on the first only, and that
//! is the one that was hushed.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Turns before others get theirs.
const MOST_TURNS: usize = 16;

pub struct AtOnce<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
}

/// Rung by whoever wants the future to run.
struct Bell {
    is_running: AtomicBool,
    is_rung: AtomicBool,
    task: Mutex<Waker>,
}

impl<F> fmt::Debug for AtOnce<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtOnce")
    }
}

impl<F: Future> AtOnce<F> {
    pub fn new(future: F) -> Self {
        let task = Mutex::new(Waker::noop().clone());
        let bell =
            Arc::new(Bell { is_running: AtomicBool::new(false), is_rung: AtomicBool::new(false), task });
        Self { future: Box::pin(future), waker: Waker::from(bell.clone()), bell }
    }
}

impl<F: Future> Future for AtOnce<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.bell.belongs_to(cx.waker());
        for _ in 0..MOST_TURNS {
            this.bell.is_running.store(true, Ordering::SeqCst);
            this.bell.is_rung.store(false, Ordering::SeqCst);
            let polled = this.future.as_mut().poll(&mut Context::from_waker(&this.waker));
            this.bell.is_running.store(false, Ordering::SeqCst);
            // Whoever rang before the line above has left a mark; whoever rings after it wakes the task.
            if polled.is_ready() || !this.bell.is_rung.load(Ordering::SeqCst) {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

thread_local! {
    static HUSH: Cell<Hush> = const { Cell::new(Hush::Off) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hush {
    Off,
    Quiet,
    Rung,
}

/// Runs `f` and says whether it rang a bell, which was not heard: the caller knows whether it matters.
pub fn hushed<T>(f: impl FnOnce() -> T) -> (T, bool) {
    let _restored = Restored(HUSH.replace(Hush::Quiet));
    let done = f();
    (done, HUSH.get() == Hush::Rung)
}

/// Puts back how it was, also when what ran in between panics: the thread goes on to serve others.
struct Restored(Hush);

impl Drop for Restored {
    fn drop(&mut self) {
        HUSH.set(self.0);
    }
}

impl Bell {
    fn belongs_to(&self, waker: &Waker) {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(waker);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if HUSH.get() != Hush::Off {
            return HUSH.set(Hush::Rung);
        }
        self.is_rung.store(true, Ordering::SeqCst);
        if !self.is_running.load(Ordering::SeqCst) {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls once a future that wakes itself `times` times; gives whether it is done and how often its task was woken.
    fn check(times: usize) -> (bool, usize) {
        let mut left = times;
        let mut future = AtOnce::new(poll_fn(move |cx| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        }));
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        let done = Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_ready();
        (done, count.0.load(Ordering::SeqCst))
    }

    #[test]
    fn a_wake_from_within_is_a_turn_of_the_loop() {
        assert_eq!(check(0), (true, 0));
        assert_eq!(check(MOST_TURNS - 1), (true, 0));
        assert_eq!(check(MOST_TURNS), (false, 1));
    }

    #[test]
    fn what_rings_unheard_costs_no_turn() {
        let turns = Cell::new(0);
        let future = AtOnce::new(poll_fn(|cx| {
            turns.set(turns.get() + 1);
            assert_eq!(hushed(|| cx.waker().wake_by_ref()), ((), true));
            assert_eq!(hushed(|| ()), ((), false));
            Poll::<()>::Pending
        }));
        let mut future = std::pin::pin!(future);
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(turns.get(), 1);
    }

    #[test]
    fn a_panic_does_not_leave_the_bells_of_a_thread_unheard() {
        let fallen = std::panic::catch_unwind(|| hushed(|| panic!("on purpose")));
        assert!(fallen.is_err());
        assert_eq!(check(MOST_TURNS), (false, 1));
    }

    #[tokio::test]
    async fn wakes_from_outside_are_not_lost() {
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        let sender = std::thread::spawn(move || (0..10_000).for_each(|n| send.blocking_send(n).unwrap()));
        let all = AtOnce::new(async move {
            let mut sum = 0usize;
            while let Some(n) = receive.recv().await {
                sum += n;
            }
            sum
        });
        let sum = tokio::time::timeout(Duration::from_secs(20), all).await.unwrap();
        sender.join().unwrap();
        assert_eq!(sum, 10_000 * 9_999 / 2);
    }
}
