//! The reading end of a stream: decides between JSON and events, and is the body of the latter.

use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};
use toolyard_model::answer::RelayError;

use super::{ReplayState, Stream, Streams};
use crate::reply::Rendered;

/// When a client whose stream broke should come back, unless a call sets another time.
const COME_BACK_AFTER: Duration = Duration::from_secs(1);

/// The form of the answer to a POST.
pub(crate) enum FirstRead {
    /// Nothing but answers.
    Json(Vec<Rendered>),
    Events,
    /// The call ended without an answer.
    Nothing,
}

pub(crate) struct Reader {
    streams: Arc<Streams>,
    pub(super) number: u64,
    generation: u64,
    /// Whether the client has an event id that it can resume from.
    primed: bool,
    done: bool,
    silence: Option<Pin<Box<Sleep>>>,
}

impl Reader {
    pub(super) fn new(streams: Arc<Streams>, number: u64, generation: u64) -> Self {
        let primed = !streams.resumable;
        Self { streams, number, generation, primed, done: false, silence: None }
    }

    pub(super) fn resumed(streams: Arc<Streams>, number: u64, generation: u64) -> Self {
        Self { streams, number, generation, primed: true, done: false, silence: None }
    }

    /// Waits until it is clear what the response will be. After a long silence it is a stream, so that no
    /// proxy closes the connection as idle.
    pub(crate) fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<FirstRead> {
        let pause = self.streams.keep_alive;
        let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
        let is_silent = silence.as_mut().poll(cx).is_ready();
        let mut state = self.streams.state();
        let Some(stream) = present(&mut state, self.number, self.generation) else {
            return Poll::Ready(FirstRead::Nothing);
        };
        let has_begun = stream.started || stream.waiting.iter().any(|item| !item.is_answer);
        if has_begun || is_silent && !stream.is_over() {
            stream.started = true;
            return Poll::Ready(FirstRead::Events);
        }
        if !stream.is_over() {
            stream.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let answers: Vec<Rendered> = stream.waiting.drain(..).map(|item| item.message).collect();
        Poll::Ready(if answers.is_empty() { FirstRead::Nothing } else { FirstRead::Json(answers) })
    }

    fn advance(&mut self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        if self.done {
            return Poll::Ready(None);
        }
        let mut state = self.streams.state();
        let Some(stream) = present(&mut state, self.number, self.generation) else {
            self.done = true;
            return Poll::Ready(None);
        };
        let mut out = BytesMut::new();
        let hang_up = stream.hang_up.take();
        if !self.primed {
            self.primed = true;
            let before = stream.waiting.front().map_or(stream.position, |item| item.position - 1);
            prime(&mut out, self.number, before, hang_up.unwrap_or(COME_BACK_AFTER));
        } else if let Some(pause) = hang_up {
            put(&mut out, format_args!("retry: {}\n\n", pause.as_millis()));
        }
        let mut answers = Vec::new();
        for item in stream.waiting.drain(..) {
            answers.extend(item.is_answer.then_some(item.position));
            let id = self.streams.resumable.then(|| format!("{}-{}", self.number, item.position));
            out.extend_from_slice(&item.message.into_event(id.as_deref()));
        }
        self.done = hang_up.is_some() || stream.is_over();
        if !out.is_empty() {
            for position in answers {
                state.ring.read(self.number, position);
            }
            return Poll::Ready(Some(out.freeze()));
        }
        if self.done {
            return Poll::Ready(None);
        }
        stream.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// An event with an id and no content, so that the client can resume even if it receives no more. It has
/// a `data` line, since parsers do not notice events without one.
fn prime(out: &mut BytesMut, number: u64, position: u64, pause: Duration) {
    put(out, format_args!("id: {number}-{position}\nretry: {}\ndata: \n\n", pause.as_millis()));
}

fn put(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a buffer grows as needed");
}

/// The stream, if this reader is still its current one.
fn present(state: &mut ReplayState, number: u64, generation: u64) -> Option<&mut Stream> {
    state.streams.get_mut(&number).filter(|stream| stream.reader == Some(generation))
}

impl Body for Reader {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let pause = self.streams.keep_alive;
        let bytes = if let Poll::Ready(bytes) = self.advance(cx) {
            bytes
        } else {
            let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
            ready!(silence.as_mut().poll(cx));
            Some(Bytes::from_static(b":\n\n"))
        };
        if let Some(silence) = &mut self.silence {
            silence.as_mut().reset(Instant::now() + pause);
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }
}

impl Drop for Reader {
    /// Leaves the stream. The call continues; the stream stays only if the client can come back.
    fn drop(&mut self) {
        let mut state = self.streams.state();
        let Some(stream) = present(&mut state, self.number, self.generation) else { return };
        stream.reader = None;
        let stays = stream.started && self.streams.resumable && !stream.is_over();
        if !stays && self.number != super::OUTSIDE {
            state.remove(self.number);
        }
    }
}
