//! The event stream of a modern call. The body itself drives the call: dropping the body cancels the call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};
use toolyard_model::answer::RelayError;
use toolyard_model::{Answer, AnswerBody, BoxFuture, Relay, RelayKind};
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::{CallError, Id};

use super::{ModernBack, complete, stamped};
use crate::endpoint::Endpoint;
use crate::reply::Rendered;

/// A comment, which clients skip.
const KEEP_ALIVE: &[u8] = b":\n\n";

pub(super) struct CallStream {
    id: Id,
    back: Arc<ModernBack>,
    work: Work,
    keep_alive: Duration,
    silence: Pin<Box<Sleep>>,
    /// A keep-alive must be sent first.
    is_overdue: bool,
    /// For a subscription: the endpoint ends, and the client is notified.
    ending: Option<BoxFuture<()>>,
}

enum Work {
    Running(BoxFuture<Answer>),
    Answered(Answer),
    /// An upstream's events follow ours.
    Relaying(Relay),
    /// An upstream's JSON, to become our last event.
    Collecting(Relay, BytesMut),
    Done,
}

impl CallStream {
    pub(super) fn running(
        endpoint: &Arc<Endpoint>,
        id: Id,
        back: Arc<ModernBack>,
        future: BoxFuture<Answer>,
    ) -> Self {
        Self::new(endpoint, id, back, Work::Running(future))
    }

    pub(super) fn answered(endpoint: &Arc<Endpoint>, id: Id, back: Arc<ModernBack>, answer: Answer) -> Self {
        Self::new(endpoint, id, back, Work::Answered(answer))
    }

    fn new(endpoint: &Arc<Endpoint>, id: Id, back: Arc<ModernBack>, work: Work) -> Self {
        let keep_alive = endpoint.options.keep_alive;
        let ending = back.subscription.is_some().then(|| {
            let scope = endpoint.ending.clone();
            Box::pin(async move { scope.ended().await }) as BoxFuture<()>
        });
        let silence = Box::pin(tokio::time::sleep(keep_alive));
        Self { id, back, work, keep_alive, silence, is_overdue: false, ending }
    }

    /// The same, but a keep-alive is sent at once.
    pub(super) fn after_silence(mut self) -> Self {
        self.is_overdue = true;
        self
    }

    /// Advances as far as possible and returns what there is to send.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, RelayError>>> {
        if std::mem::take(&mut self.is_overdue) {
            return Poll::Ready(Some(Ok(Bytes::from_static(KEEP_ALIVE))));
        }
        if let Some(ending) = &mut self.ending
            && matches!(self.work, Work::Running(_))
            && ending.as_mut().poll(cx).is_ready()
        {
            self.work = Work::Answered(Ok(AnswerBody::ours(complete())));
        }
        if let Work::Running(future) = &mut self.work
            && let Poll::Ready(answer) = future.as_mut().poll(cx)
        {
            self.work = Work::Answered(answer);
        }
        let mut out = BytesMut::new();
        for message in self.back.outbox.take() {
            out.extend_from_slice(&message.into_event(None));
        }
        self.settle(&mut out);
        if !out.is_empty() {
            return Poll::Ready(Some(Ok(out.freeze())));
        }
        self.wait(cx)
    }

    /// Turns an answer into the last event, or into a relayed body.
    fn settle(&mut self, out: &mut BytesMut) {
        let answer = match std::mem::replace(&mut self.work, Work::Done) {
            Work::Answered(answer) => answer,
            work => return self.work = work,
        };
        let last = match answer {
            Ok(AnswerBody::Stream(relay)) => {
                self.work = match relay.kind {
                    RelayKind::Sse => Work::Relaying(relay),
                    RelayKind::Json => Work::Collecting(relay, BytesMut::new()),
                };
                return;
            }
            Ok(AnswerBody::Whole(result, _)) if self.back.subscription.is_some() => {
                Rendered::result(&self.id, stamped(Some(result), &self.id))
            }
            Ok(AnswerBody::Whole(result, _)) => Rendered::result(&self.id, result),
            Err(error) => Rendered::error(Some(&self.id), &error.to_raw()),
        };
        out.extend_from_slice(&last.into_event(None));
    }

    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, RelayError>>> {
        let polled = match &mut self.work {
            Work::Done => return Poll::Ready(None),
            Work::Running(_) | Work::Answered(_) => self.back.outbox.poll_filled(cx).map(|()| {
                cx.waker().wake_by_ref();
                None
            }),
            Work::Relaying(relay) => match next_data(relay, cx) {
                Poll::Ready(None) => {
                    self.work = Work::Done;
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.work = Work::Done;
                    let last = Rendered::error(Some(&self.id), &error.0.to_raw());
                    return Poll::Ready(Some(Ok(last.into_event(None))));
                }
                polled => polled,
            },
            Work::Collecting(..) => self.collect(cx).map(Some),
        };
        match polled {
            Poll::Ready(Some(bytes)) => return Poll::Ready(Some(bytes)),
            Poll::Ready(None) => return Poll::Pending,
            Poll::Pending => {}
        }
        ready!(self.silence.as_mut().poll(cx));
        Poll::Ready(Some(Ok(Bytes::from_static(KEEP_ALIVE))))
    }

    fn collect(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, RelayError>> {
        loop {
            let Work::Collecting(relay, whole) = &mut self.work else { return Poll::Pending };
            let failed = match ready!(next_data(relay, cx)) {
                Some(Ok(data)) if whole.len() + data.len() <= MAX_MESSAGE => {
                    whole.extend_from_slice(&data);
                    continue;
                }
                Some(Ok(_)) => CallError::answer_too_large("the upstream sent an answer of more than 64 MiB"),
                Some(Err(error)) => *error.0,
                None => {
                    let whole = std::mem::take(whole).freeze();
                    self.work = Work::Done;
                    return Poll::Ready(Ok(Rendered::whole(whole).into_event(None)));
                }
            };
            self.work = Work::Done;
            return Poll::Ready(Ok(Rendered::error(Some(&self.id), &failed.to_raw()).into_event(None)));
        }
    }
}

/// The next data of a relayed body; trailers are left out.
fn next_data(relay: &mut Relay, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, RelayError>>> {
    loop {
        return Poll::Ready(match ready!(Pin::new(&mut *relay).poll_frame(cx)) {
            None => None,
            Some(Err(error)) => Some(Err(error)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Some(Ok(data)),
                Err(_) => continue,
            },
        });
    }
}

impl Body for CallStream {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let polled = self.advance(cx);
        if matches!(polled, Poll::Ready(Some(Ok(_)))) {
            let next = Instant::now() + self.keep_alive;
            self.silence.as_mut().reset(next);
        }
        polled.map(|data| data.map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.work, Work::Done) && self.back.outbox.is_empty()
    }
}
