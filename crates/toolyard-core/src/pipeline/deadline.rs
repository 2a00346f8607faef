//! Bounds a call: the wait for the answer, and the answer while it flows.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use toolyard_model::answer::{RelayBody, RelayError};
use toolyard_model::{Answer, AnswerBody, BoxFuture};
use toolyard_proto::{CallError, Method};

use super::clock::{Clock, Expired};
use super::{Call, Next, Step};
use crate::plan::Timeouts;

/// In `_meta` of a request: how long the call may take without any sign of progress, in milliseconds. The config's
/// own limit cannot be exceeded.
const TIMEOUT_KEY: &str = "dev.toolyard/timeoutMs";

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
        call.peer = clock.watch(call.peer, &upstream);
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
                    Err(overdue(&subject, bound, goes_on).at(upstream.name()))
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

/// A task `goes_on` after the wait for its result has ended.
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

/// A relayed body under the call's clock: each piece is a sign of life. The timer is armed only when the
/// upstream makes us wait.
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
