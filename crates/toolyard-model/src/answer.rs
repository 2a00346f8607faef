//! The answer to a call: a whole result, or the upstream's own bytes on their way.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use toolyard_proto::{CallError, Raw, Revision};

pub type Answer = Result<AnswerBody, CallError>;

#[derive(Debug)]
pub enum AnswerBody {
    /// A result, in the form of the given revision. The edge converts it for legacy clients.
    Whole(Raw, Revision),
    /// The complete HTTP body with the answer in it, envelope and id included. Only for requests that
    /// allow it (`Request::relay`).
    Stream(Relay),
}

impl AnswerBody {
    /// A result made by the gateway, in the newest form.
    pub fn ours(result: Raw) -> Self {
        Self::Whole(result, Revision::NEWEST)
    }
}

/// The kind of a relayed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayKind {
    Json,
    Sse,
}

/// Dropped when the answer has really ended, however it ended: permits, records and timers depend on it.
pub type EndGuard = Box<dyn Send + Sync>;

pub type RelayBody = Pin<Box<dyn Body<Data = Bytes, Error = RelayError> + Send>>;

/// Why a relayed answer broke off.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RelayError(pub Box<CallError>);

impl From<CallError> for RelayError {
    fn from(error: CallError) -> Self {
        Self(Box::new(error))
    }
}

/// An upstream's answer passing through, byte for byte.
pub struct Relay {
    pub kind: RelayKind,
    body: RelayBody,
    guards: Vec<EndGuard>,
}

impl Relay {
    pub fn new(kind: RelayKind, body: impl Body<Data = Bytes, Error = RelayError> + Send + 'static) -> Self {
        Self { kind, body: Box::pin(body), guards: Vec::new() }
    }

    /// Keeps `guard` until the last byte has passed or the relay is dropped.
    pub fn hold(&mut self, guard: EndGuard) {
        self.guards.push(guard);
    }

    /// Wraps the body, for a step that watches it flow.
    #[must_use]
    pub fn map_body<B>(self, wrap: impl FnOnce(RelayBody) -> B) -> Self
    where
        B: Body<Data = Bytes, Error = RelayError> + Send + 'static,
    {
        Self { kind: self.kind, body: Box::pin(wrap(self.body)), guards: self.guards }
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let polled = self.body.as_mut().poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.guards.clear();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
