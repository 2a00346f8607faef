//! The one body type of everything we answer over HTTP.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use toolyard_model::Relay;
use toolyard_model::answer::RelayError;
use toolyard_proto::Id;

use super::rendered::Rendered;

/// A body of known size in up to three pieces, an upstream's body passing through, or a live event stream.
pub(crate) struct ServeBody(Inner);

type LiveBody = Pin<Box<dyn Body<Data = Bytes, Error = RelayError> + Send>>;

enum Inner {
    Parts { parts: [Bytes; 3], at: usize },
    Relay { relay: Relay, ends: RelayEnd },
    Live(LiveBody),
}

/// What to do when a relayed answer breaks.
enum RelayEnd {
    CutOff,
    WithError(Id),
    Over,
}

impl RelayEnd {
    fn poll(
        &mut self,
        relay: &mut Relay,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        if matches!(self, Self::Over) {
            return Poll::Ready(None);
        }
        let polled = ready!(Pin::new(relay).poll_frame(cx));
        let (Some(Err(error)), Self::WithError(id)) = (&polled, &*self) else { return Poll::Ready(polled) };
        let last = Rendered::error(Some(id), &error.0.to_raw()).into_event(None);
        *self = Self::Over;
        Poll::Ready(Some(Ok(Frame::data(last))))
    }
}

impl ServeBody {
    pub(crate) fn empty() -> Self {
        Self::full(Bytes::new())
    }

    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Parts { parts: [bytes.into(), Bytes::new(), Bytes::new()], at: 0 })
    }

    pub(crate) fn message(message: Rendered) -> Self {
        Self(Inner::Parts { parts: message.into_parts(), at: 0 })
    }

    /// An answer that is cut off if it breaks.
    pub(crate) fn relay(relay: Relay) -> Self {
        Self(Inner::Relay { relay, ends: RelayEnd::CutOff })
    }

    /// An event stream. If it breaks, its last event is the error, as the answer to this request.
    pub(crate) fn relayed_events(relay: Relay, id: Id) -> Self {
        Self(Inner::Relay { relay, ends: RelayEnd::WithError(id) })
    }

    /// A body that produces its bytes over time; dropping it ends the work.
    pub(crate) fn live(body: impl Body<Data = Bytes, Error = RelayError> + Send + 'static) -> Self {
        Self(Inner::Live(Box::pin(body)))
    }

    /// The same, which ends with the credential that it was opened with.
    pub(crate) fn live_until(
        body: impl Body<Data = Bytes, Error = RelayError> + Send + 'static,
        until: Option<Instant>,
    ) -> Self {
        match until {
            Some(until) => {
                let (body, over) = (Some(Box::pin(body)), Box::pin(sleep_until(until)));
                Self::live(Expiring { body, over })
            }
            None => Self::live(body),
        }
    }
}

/// An event stream that ends at a time.
struct Expiring<B> {
    /// Dropped at the end, with everything that it holds.
    body: Option<Pin<Box<B>>>,
    over: Pin<Box<Sleep>>,
}

impl<B: Body<Data = Bytes, Error = RelayError>> Body for Expiring<B> {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        if self.over.as_mut().poll(cx).is_ready() {
            self.body = None;
        }
        match &mut self.body {
            Some(body) => body.as_mut().poll_frame(cx),
            None => Poll::Ready(None),
        }
    }
}

impl fmt::Debug for ServeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Inner::Parts { .. } => "ServeBody::Parts",
            Inner::Relay { .. } => "ServeBody::Relay",
            Inner::Live(_) => "ServeBody::Live",
        })
    }
}

impl Body for ServeBody {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        match &mut self.0 {
            Inner::Parts { parts, at } => Poll::Ready(next_part(parts, at).map(|part| Ok(Frame::data(part)))),
            Inner::Relay { relay, ends } => ends.poll(relay, cx),
            Inner::Live(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Parts { parts, .. } => parts.iter().all(Bytes::is_empty),
            Inner::Relay { relay, ends } => matches!(ends, RelayEnd::Over) || relay.is_end_stream(),
            Inner::Live(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Parts { parts, .. } => {
                SizeHint::with_exact(parts.iter().map(|part| part.len() as u64).sum())
            }
            Inner::Relay { relay, .. } => relay.size_hint(),
            Inner::Live(_) => SizeHint::default(),
        }
    }
}

fn next_part(parts: &mut [Bytes; 3], at: &mut usize) -> Option<Bytes> {
    while let Some(part) = parts.get_mut(*at) {
        *at += 1;
        if !part.is_empty() {
            return Some(std::mem::take(part));
        }
    }
    None
}
