//! Limits the time of a call, both until the answer begins and while it is streamed. Progress extends the time that a
//! call has left, and its clock is paused while the user is asked.

#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};
use toolyard_model::answer::{RelayBody, RelayError};
use toolyard_model::{Answer, AnswerBody, Ask, AskError, Back, BoxFuture, Peer};
use toolyard_proto::{CallError, Method, Notification, Raw};

use super::{Call, Next, Step};
use crate::ledger::OpenCall;
use crate::plan::Timeouts;
use crate::upstream::Upstream;

/// In `_meta` of a request: how long the call may take without any sign of progress, in milliseconds. The config's
/// own limit cannot be exceeded.
const TIMEOUT_KEY: &str = "dev.toolyard/timeoutMs";
/// A timer that fires this late shows that this process was suspended, and not that the upstream is slow.
const LATE: Duration = Duration::from_millis(250);
/// Extra time to read an answer that arrived while this process was suspended.
const MOMENT: Duration = Duration::from_secs(1);

pub(crate) struct Deadline {
    timeouts: Timeouts,
}

impl Deadline {
    pub(crate) fn new(timeouts: Timeouts) -> Self {
        Self { timeouts }
    }

    fn timeouts_of(&self, call: &Call) -> Timeouts {
        // `tasks/result` waits until the task has ended, however long that takes.
        if call.method == Method::TASKS_RESULT {
            return Timeouts { idle: self.timeouts.hard, ..self.timeouts };
        }
        match call.params.meta(TIMEOUT_KEY).and_then(|wanted| wanted.read().ok()) {
            Some(wanted) => self.timeouts.shortened(Duration::from_millis(wanted)),
            None => self.timeouts,
        }
    }
}

impl Step for Deadline {
    fn run(&self, mut call: Call, next: Next) -> BoxFuture<Answer> {
        let clock = Clock::start(self.timeouts_of(&call));
        let (upstream, entry) = (call.upstream.clone(), call.entry.clone());
        let goes_on = call.method == Method::TASKS_RESULT;
        // The peer of a fallback call is already watched by the clock of the first call.
        let open = call.open.clone().filter(|_| call.fallbacks == 0);
        call.peer = clock.watch(call.peer, &upstream, open);
        call.deadline = Some(clock.clone());
        let answering = next.run(call);
        Box::pin(async move {
            let answer = tokio::select! {
                biased;
                answer = answering => answer,
                bound = clock.expired() => {
                    if matches!(bound, Expired::Idle(_)) {
                        upstream.life.left_unanswered();
                    }
                    let subject = entry.map_or_else(|| upstream.id().to_string(), |entry| entry.canonical.to_string());
                    clock.timed_out(overdue(&subject, bound, goes_on).at(upstream.name())).await
                }
            };
            match answer {
                Ok(AnswerBody::Stream(relay)) => {
                    clock.touch();
                    Ok(AnswerBody::Stream(relay.map_body(|body| Timed { body, clock, sleep: None })))
                }
                answer => answer,
            }
        })
    }
}

/// The error of a call that has timed out. With `goes_on`, it waited for the result of a task, which continues.
fn overdue(subject: &str, bound: Expired, goes_on: bool) -> CallError {
    CallError::timeout(match bound {
        Expired::Idle(limit) | Expired::Hard(limit) if goes_on => format!(
            "a task of {subject} was not finished after {} s; it continues, so ask for its result again",
            limit.as_secs_f32()
        ),
        Expired::Idle(limit) => format!(
            "{subject} made no progress for {} s and was cancelled; raise `timeout` of this upstream or tool if it needs longer",
            limit.as_secs_f32()
        ),
        Expired::Hard(limit) => {
            format!("{subject} was not finished after {} s and was cancelled", limit.as_secs_f32())
        }
    })
}

/// A relayed body under the call's clock: each piece restarts the idle time. The timer is set only when no piece is
/// ready.
struct Timed {
    body: RelayBody,
    clock: Arc<Clock>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<Expired> {
        let (due, bound) = self.clock.due();
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if sleep.deadline() != due {
            sleep.as_mut().reset(due);
        }
        if due <= Instant::now() {
            return Poll::Ready(bound);
        }
        sleep.as_mut().poll(cx).map(|()| bound)
    }
}

impl Body for Timed {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        if let Poll::Ready(frame) = self.body.as_mut().poll_frame(cx) {
            self.clock.touch();
            return Poll::Ready(frame);
        }
        self.poll_overdue(cx).map(|bound| Some(Err(RelayError::from(overdue("the answer", bound, false)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// One call's clock. Times are milliseconds since its start.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    timeouts: Timeouts,
    touched: AtomicU64,
    /// How long the clock has been paused in all.
    paused: AtomicU64,
    asking: AtomicUsize,
    /// When the current pause began. Overlapping questions are one pause.
    paused_since: AtomicU64,
    resumed: Notify,
    on_timeout: Mutex<OnTimeout>,
}

/// What a step does with the error of a call that has timed out. The future of the step cannot do it, because it is
/// dropped, which cancels the call.
#[derive(Default)]
struct OnTimeout(Option<Box<dyn FnOnce(CallError) -> BoxFuture<Answer> + Send>>);

impl fmt::Debug for OnTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnTimeout({})", self.0.is_some())
    }
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
            paused: AtomicU64::new(0),
            asking: AtomicUsize::new(0),
            paused_since: AtomicU64::new(0),
            resumed: Notify::new(),
            on_timeout: Mutex::default(),
        })
    }

    /// If the call times out, its answer is the result of `review`. `review` must not hold the call, because the call
    /// holds this clock.
    pub(super) fn set_on_timeout(
        &self,
        review: impl FnOnce(CallError) -> BoxFuture<Answer> + Send + 'static,
    ) {
        self.on_timeout.lock().0 = Some(Box::new(review));
    }

    pub(super) fn clear_on_timeout(&self) {
        self.on_timeout.lock().0 = None;
    }

    async fn timed_out(&self, error: CallError) -> Answer {
        let review = self.on_timeout.lock().0.take();
        match review {
            Some(review) => review(error).await,
            None => Err(error),
        }
    }

    /// Restarts the idle time, after any sign of progress.
    pub fn touch(&self) {
        self.touched.store(self.elapsed(), Ordering::Relaxed);
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// When the call times out if nothing happens until then.
    pub fn due(&self) -> (Instant, Expired) {
        let idle =
            self.start + Duration::from_millis(self.touched.load(Ordering::Relaxed)) + self.timeouts.idle;
        let hard =
            self.start + Duration::from_millis(self.paused.load(Ordering::Relaxed)) + self.timeouts.hard;
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
    fn pause(self: &Arc<Self>) -> Paused {
        if self.asking.fetch_add(1, Ordering::AcqRel) == 0 {
            self.paused_since.store(self.elapsed(), Ordering::Release);
        }
        Paused { clock: self.clone() }
    }

    /// Wraps the channel back to the caller: notifications restart the clock, and questions pause it.
    pub(crate) fn watch(
        self: &Arc<Self>,
        peer: Peer,
        upstream: &Arc<Upstream>,
        open: Option<Arc<OpenCall>>,
    ) -> Peer {
        Peer::new(Arc::new(WatchedPeer { peer, clock: self.clone(), upstream: upstream.clone(), open }))
    }
}

struct Paused {
    clock: Arc<Clock>,
}

impl Paused {
    /// Whether nothing else stops the clock.
    fn is_last(&self) -> bool {
        self.clock.asking.load(Ordering::Acquire) == 1
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let clock = &self.clock;
        let since = clock.paused_since.load(Ordering::Acquire);
        clock.touch();
        if clock.asking.fetch_sub(1, Ordering::AcqRel) == 1 {
            clock.paused.fetch_add(clock.elapsed().saturating_sub(since), Ordering::Relaxed);
            clock.resumed.notify_waiters();
        }
    }
}

struct WatchedPeer {
    peer: Peer,
    clock: Arc<Clock>,
    upstream: Arc<Upstream>,
    /// Answers of the client are counted as its rounds.
    open: Option<Arc<OpenCall>>,
}

impl Back for WatchedPeer {
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
        let paused = self.clock.pause();
        let asked = self.peer.ask(ask);
        let open = self.open.clone();
        Box::pin(async move {
            let answer = asked.await;
            // Questions that are asked at the same time count as one round.
            if matches!(answer, Ok(_) | Err(AskError::Reported(_)))
                && paused.is_last()
                && let Some(open) = open
            {
                open.was_answered();
            }
            drop(paused);
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
