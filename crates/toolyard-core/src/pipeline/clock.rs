//! The time a call has left. Progress extends it, and it is paused while the user is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use toolyard_model::{Ask, AskError, Back, BoxFuture, Peer};
use toolyard_proto::{Notification, Raw};

use crate::plan::Timeouts;
use crate::upstream::Upstream;

/// An alarm that comes this late shows that this program was suspended, not the upstream.
const LATE: Duration = Duration::from_millis(250);
/// Extra time to read an answer that arrived meanwhile.
const MOMENT: Duration = Duration::from_secs(1);

/// One call's clock. Times are milliseconds since its start.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    timeouts: Timeouts,
    touched: AtomicU64,
    /// How long the clock has been paused in all.
    frozen: AtomicU64,
    asking: AtomicUsize,
    /// Since when it is paused; overlapping questions count once.
    frozen_since: AtomicU64,
    resumed: Notify,
}

/// Which bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    Idle(Duration),
    Hard(Duration),
}

impl Clock {
    pub fn start(timeouts: Timeouts) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            timeouts,
            touched: AtomicU64::new(0),
            frozen: AtomicU64::new(0),
            asking: AtomicUsize::new(0),
            frozen_since: AtomicU64::new(0),
            resumed: Notify::new(),
        })
    }

    /// Restarts the idle time, after any sign of progress.
    pub fn touch(&self) {
        self.touched.store(self.elapsed(), Ordering::Relaxed);
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// When the call is over if nothing happens until then.
    pub fn due(&self) -> (Instant, Expired) {
        let idle =
            self.start + Duration::from_millis(self.touched.load(Ordering::Relaxed)) + self.timeouts.idle;
        let hard =
            self.start + Duration::from_millis(self.frozen.load(Ordering::Relaxed)) + self.timeouts.hard;
        if idle < hard {
            (idle, Expired::Idle(self.timeouts.idle))
        } else {
            (hard, Expired::Hard(self.timeouts.hard))
        }
    }

    pub fn is_paused(&self) -> bool {
        self.asking.load(Ordering::Acquire) > 0
    }

    /// Waits until the time is up.
    pub async fn expired(&self) -> Expired {
        let mut overslept = false;
        loop {
            while self.is_paused() {
                let resumed = self.resumed.notified();
                if self.is_paused() {
                    resumed.await;
                }
            }
            let (due, bound) = self.due();
            let late = Instant::now().checked_duration_since(due);
            match late {
                None => tokio::time::sleep_until(due).await,
                Some(late) if late > LATE && !overslept => {
                    overslept = true;
                    tokio::time::sleep(MOMENT).await;
                }
                Some(_) => return bound,
            }
        }
    }

    /// Stops the clock until the guard is dropped.
    fn freeze(self: &Arc<Self>) -> Frozen {
        if self.asking.fetch_add(1, Ordering::AcqRel) == 0 {
            self.frozen_since.store(self.elapsed(), Ordering::Release);
        }
        Frozen { clock: self.clone() }
    }

    /// The way back, watched by this clock.
    pub fn watch(self: &Arc<Self>, peer: Peer, upstream: &Arc<Upstream>) -> Peer {
        Peer::new(Arc::new(Watched { peer, clock: self.clone(), upstream: upstream.clone() }))
    }
}

struct Frozen {
    clock: Arc<Clock>,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let clock = &self.clock;
        let since = clock.frozen_since.load(Ordering::Acquire);
        clock.touch();
        if clock.asking.fetch_sub(1, Ordering::AcqRel) == 1 {
            clock.frozen.fetch_add(clock.elapsed().saturating_sub(since), Ordering::Relaxed);
            clock.resumed.notify_waiters();
        }
    }
}

struct Watched {
    peer: Peer,
    clock: Arc<Clock>,
    upstream: Arc<Upstream>,
}

impl Back for Watched {
    fn notify(&self, notification: Notification) {
        self.clock.touch();
        self.upstream.life.responded();
        self.peer.notify(notification);
    }

    fn notify_own(&self, notification: Notification) {
        self.clock.touch();
        self.peer.notify_own(notification);
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        self.upstream.life.responded();
        let frozen = self.clock.freeze();
        let asked = self.peer.ask(ask);
        Box::pin(async move {
            let answer = asked.await;
            drop(frozen);
            answer
        })
    }

    fn alive(&self) {
        self.clock.touch();
        self.upstream.life.responded();
        self.peer.alive();
    }

    fn hang_up(&self, come_back_after: Duration) {
        self.peer.hang_up(come_back_after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Timeouts = Timeouts { idle: Duration::from_secs(10), hard: Duration::from_mins(1) };

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_call_after_the_idle_time() {
        let clock = Clock::start(SHORT);
        assert_eq!(clock.expired().await, Expired::Idle(SHORT.idle));
        assert_eq!(clock.start.elapsed(), SHORT.idle);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_extends_it_up_to_the_hard_maximum() {
        let clock = Clock::start(SHORT);
        let touches = async {
            loop {
                tokio::time::sleep(Duration::from_secs(9)).await;
                clock.touch();
            }
        };
        tokio::select! {
            bound = clock.expired() => assert_eq!(bound, Expired::Hard(SHORT.hard)),
            () = touches => unreachable!(),
        }
        assert_eq!(clock.start.elapsed(), SHORT.hard);
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_was_suspended_still_takes_an_answer_that_came_in_time() {
        let clock = Clock::start(SHORT);
        // As if the process had been stopped, and with it the alarm.
        tokio::time::advance(SHORT.idle * 3).await;
        let answer = async {
            tokio::time::sleep(MOMENT / 2).await;
            "answer"
        };
        tokio::select! {
            bound = clock.expired() => panic!("{bound:?}"),
            answer = answer => assert_eq!(answer, "answer"),
        }
        assert_eq!(clock.expired().await, Expired::Idle(SHORT.idle));
        assert_eq!(clock.start.elapsed(), SHORT.idle * 3 + MOMENT / 2 + MOMENT);
    }

    #[tokio::test(start_paused = true)]
    async fn questions_that_overlap_stop_the_clock_once() {
        let clock = Clock::start(SHORT);
        let asked: Vec<Frozen> = (0..32).map(|_| clock.freeze()).collect();
        tokio::time::sleep(Duration::from_secs(100)).await;
        drop(asked);
        assert_eq!(clock.frozen.load(Ordering::Relaxed), 100_000);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_is_paused_while_the_user_is_asked() {
        let clock = Clock::start(SHORT);
        let frozen = clock.freeze();
        let thaw = async {
            tokio::time::sleep(Duration::from_secs(500)).await;
            drop(frozen);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            bound = clock.expired() => assert_eq!(bound, Expired::Idle(SHORT.idle)),
            () = thaw => unreachable!(),
        }
        assert_eq!(clock.start.elapsed(), Duration::from_secs(510));
    }
}
