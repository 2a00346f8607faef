//! A future that is polled again at once if it is woken while it is polled.
//!
//! Reading a request's body inside the call that serves it wakes the connection's own task every time. Left to the
//! runtime, such a wake puts the task at the end of a queue and wakes another thread to look for work, which costs
//! more than the whole call. Here it only costs another turn of a loop.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// How many turns it takes before other tasks get theirs.
const MAX_TURNS: usize = 16;

pub(super) struct PollInline<F> {
    future: Pin<Box<F>>,
    inline: Arc<InlineWaker>,
    waker: Waker,
}

/// The waker that the future is polled with.
struct InlineWaker {
    is_running: AtomicBool,
    is_woken: AtomicBool,
    task: Mutex<Waker>,
}

impl<F: Future> PollInline<F> {
    pub(super) fn new(future: F) -> Self {
        let task = Mutex::new(Waker::noop().clone());
        let inline = Arc::new(InlineWaker {
            is_running: AtomicBool::new(false),
            is_woken: AtomicBool::new(false),
            task,
        });
        Self { future: Box::pin(future), waker: Waker::from(inline.clone()), inline }
    }
}

impl<F: Future> Future for PollInline<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.inline.set_task(cx.waker());
        for _ in 0..MAX_TURNS {
            this.inline.is_running.store(true, Ordering::SeqCst);
            this.inline.is_woken.store(false, Ordering::SeqCst);
            let polled = this.future.as_mut().poll(&mut Context::from_waker(&this.waker));
            this.inline.is_running.store(false, Ordering::SeqCst);
            // A wake before the line above has set `is_woken`; a later one wakes the task.
            if polled.is_ready() || !this.inline.is_woken.load(Ordering::SeqCst) {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl InlineWaker {
    fn set_task(&self, waker: &Waker) {
        self.task.lock().clone_from(waker);
    }
}

impl Wake for InlineWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        if !self.is_running.load(Ordering::SeqCst) {
            self.task.lock().wake_by_ref();
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
        let mut future = PollInline::new(poll_fn(move |cx| {
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
        assert_eq!(check(MAX_TURNS - 1), (true, 0));
        assert_eq!(check(MAX_TURNS), (false, 1));
    }

    #[tokio::test]
    async fn wakes_from_outside_are_not_lost() {
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        let sender = std::thread::spawn(move || (0..10_000).for_each(|n| send.blocking_send(n).unwrap()));
        let all = PollInline::new(async move {
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
