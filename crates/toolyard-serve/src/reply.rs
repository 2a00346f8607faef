//! Replies to clients: messages in their final form, the few kinds of HTTP responses, and their one body type.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use toolyard_model::answer::RelayError;
use toolyard_model::{Relay, RelayKind};
use toolyard_proto::codec::{line, sse};
use toolyard_proto::message::{outcome_head, render_error, render_result};
use toolyard_proto::{CallError, Era, Id, Message, Notification, Raw, RpcError};

/// Below this, copying into one buffer is cheaper than writing three.
const WORTH_SHARING: usize = 16 * 1024;

pub(crate) type HttpResponse = Response<ServeBody>;

/// The reply to a posted message: nearly always another message, for which no response object is needed.
pub(crate) enum Reply {
    Message(Rendered),
    Http(HttpResponse),
}

impl Reply {
    pub(crate) fn into_http(self) -> HttpResponse {
        match self {
            Self::Message(rendered) => message(rendered),
            Self::Http(response) => response,
        }
    }
}

impl From<HttpResponse> for Reply {
    fn from(response: HttpResponse) -> Self {
        Self::Http(response)
    }
}

/// A message in its final form. A large prepared result is not copied; only its envelope is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    head: Bytes,
    /// A result between `head` and a closing brace.
    shared: Option<Bytes>,
}

impl Rendered {
    pub(crate) fn whole(message: Bytes) -> Self {
        Self { head: message, shared: None }
    }

    pub(crate) fn result(id: &Id, result: Raw) -> Self {
        if result.len() < WORTH_SHARING {
            return Self::whole(render_result(id, &result));
        }
        Self { head: outcome_head(id, "result"), shared: Some(result.into_bytes()) }
    }

    pub(crate) fn error(id: Option<&Id>, error: &Raw) -> Self {
        Self::whole(render_error(id, error))
    }

    pub(crate) fn notification(notification: Notification) -> Self {
        Self::whole(Message::Notification(notification).render())
    }

    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.shared.as_ref().map_or(0, |shared| shared.len() + 1)
    }

    /// The pieces to write one after the other.
    pub(crate) fn into_parts(self) -> [Bytes; 3] {
        match self.shared {
            None => [self.head, Bytes::new(), Bytes::new()],
            Some(shared) => [self.head, shared, Bytes::from_static(b"}")],
        }
    }

    fn contiguous(self) -> Bytes {
        match self.shared {
            None => self.head,
            Some(_) => Bytes::from(self.into_parts().concat()),
        }
    }

    /// One server-sent event. The message is on one `data` line, because some readers support no other form.
    pub(crate) fn into_event(self, id: Option<&str>) -> Bytes {
        sse::encode(&line::one_line(self.contiguous()), id)
    }

    /// The pieces of one line, its end included.
    pub(crate) fn into_line(self) -> [Bytes; 3] {
        let [head, shared, _] = self.into_parts();
        let end = if shared.is_empty() { "\n" } else { "}\n" };
        [line::one_line(head), line::one_line(shared), Bytes::from_static(end.as_bytes())]
    }
}

/// Several answers as one JSON array, for the one revision that had batches.
pub(crate) fn array(messages: Vec<Rendered>) -> Bytes {
    let mut out =
        BytesMut::with_capacity(messages.iter().map(|message| message.len() + 1).sum::<usize>() + 1);
    out.put_u8(b'[');
    for (at, message) in messages.into_iter().enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        for part in message.into_parts() {
            out.put_slice(&part);
        }
    }
    out.put_u8(b']');
    out.freeze()
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NO_BUFFERING: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

fn with(status: StatusCode, kind: HeaderValue, body: ServeBody) -> HttpResponse {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

pub(crate) fn json(body: ServeBody) -> HttpResponse {
    with(StatusCode::OK, JSON, body)
}

pub(crate) fn message(message: Rendered) -> HttpResponse {
    json(ServeBody::message(message))
}

pub(crate) fn events(body: ServeBody) -> HttpResponse {
    let mut response = with(StatusCode::OK, EVENTS, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert(NO_BUFFERING.0, NO_BUFFERING.1);
    response
}

pub(crate) fn relay(relay: Relay, id: Id) -> HttpResponse {
    match relay.kind {
        RelayKind::Json => json(ServeBody::relay(relay)),
        RelayKind::Sse => events(ServeBody::relayed_events(relay, id)),
    }
}

pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> HttpResponse {
    with(status, TEXT, ServeBody::full(text.into()))
}

pub(crate) fn empty(status: StatusCode) -> HttpResponse {
    let mut response = Response::new(ServeBody::empty());
    *response.status_mut() = status;
    response
}

/// An error about the message as such, before it became a call.
pub(crate) fn refusal(status: StatusCode, id: Option<&Id>, error: &RpcError) -> HttpResponse {
    with(status, JSON, ServeBody::full(render_error(id, &error.to_raw())))
}

/// An error of a call, with the status that its era gives it.
pub(crate) fn error(era: Era, id: &Id, error: &CallError) -> HttpResponse {
    let status = StatusCode::from_u16(error.http_status(era)).unwrap_or(StatusCode::OK);
    with(status, JSON, ServeBody::full(render_error(Some(id), &error.to_raw())))
}

/// A body of known size in up to three pieces, an upstream's body passing through, or a live event stream.
pub(crate) struct ServeBody(BodyKind);

type LiveBody = Pin<Box<dyn Body<Data = Bytes, Error = RelayError> + Send>>;

enum BodyKind {
    Parts { parts: [Bytes; 3], at: usize },
    Relay { relay: Relay, ends: RelayEnd },
    Live(LiveBody),
}

/// The reaction to a relayed answer that breaks.
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
        Self(BodyKind::Parts { parts: [bytes.into(), Bytes::new(), Bytes::new()], at: 0 })
    }

    pub(crate) fn message(message: Rendered) -> Self {
        Self(BodyKind::Parts { parts: message.into_parts(), at: 0 })
    }

    /// An answer that is cut off if it breaks.
    pub(crate) fn relay(relay: Relay) -> Self {
        Self(BodyKind::Relay { relay, ends: RelayEnd::CutOff })
    }

    /// An event stream. If it breaks, its last event is the error, as the answer to this request.
    pub(crate) fn relayed_events(relay: Relay, id: Id) -> Self {
        Self(BodyKind::Relay { relay, ends: RelayEnd::WithError(id) })
    }

    /// A body that produces its bytes over time; dropping it ends the work.
    pub(crate) fn live(body: impl Body<Data = Bytes, Error = RelayError> + Send + 'static) -> Self {
        Self(BodyKind::Live(Box::pin(body)))
    }

    /// The same, which ends with the credential that it was opened with.
    pub(crate) fn live_until(
        body: impl Body<Data = Bytes, Error = RelayError> + Send + 'static,
        until: Option<Instant>,
    ) -> Self {
        match until {
            Some(until) => {
                let body = Some(Box::pin(body));
                let over = Box::pin(sleep_until(until));
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
            BodyKind::Parts { .. } => "ServeBody::Parts",
            BodyKind::Relay { .. } => "ServeBody::Relay",
            BodyKind::Live(_) => "ServeBody::Live",
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
            BodyKind::Parts { parts, at } => {
                Poll::Ready(next_part(parts, at).map(|part| Ok(Frame::data(part))))
            }
            BodyKind::Relay { relay, ends } => ends.poll(relay, cx),
            BodyKind::Live(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Parts { parts, .. } => parts.iter().all(Bytes::is_empty),
            BodyKind::Relay { relay, ends } => matches!(ends, RelayEnd::Over) || relay.is_end_stream(),
            BodyKind::Live(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Parts { parts, .. } => {
                SizeHint::with_exact(parts.iter().map(|part| part.len() as u64).sum())
            }
            BodyKind::Relay { relay, .. } => relay.size_hint(),
            BodyKind::Live(_) => SizeHint::default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: &str) {
        let raw = Raw::parse(result.to_owned()).unwrap();
        let rendered = Rendered::result(&Id::number(1), raw);
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}");
        assert_eq!(rendered.len(), expected.len());
        assert_eq!(rendered.clone().contiguous(), expected);
        let line = rendered.into_line().concat();
        assert_eq!(line, format!("{}\n", expected.replace('\n', " ")).as_bytes());
    }

    #[test]
    fn small_and_large_results_come_out_the_same() {
        check("{\"a\":\n1}");
        check(&format!("{{\"a\":\n\"{}\"}}", "x".repeat(WORTH_SHARING)));
    }
}
