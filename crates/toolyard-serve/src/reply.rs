//! The few kinds of HTTP responses that we send.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use toolyard_model::{Relay, RelayKind};
use toolyard_proto::message::render_error;
use toolyard_proto::{CallError, Era, Id, RpcError};

use super::body::ServeBody;
use super::rendered::Rendered;

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
