//! The control API under `/api/v1`: HTTP becomes a [`ControlRequest`], and the answer HTTP again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body::{Body, Frame};
use http_body_util::StreamBody;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::{Sleep, sleep};
use toolyard_model::answer::RelayError;
use toolyard_model::control::{Control, ControlEvent, ControlRequest, ControlResponse};
use toolyard_model::headers::LAST_EVENT_ID;
use toolyard_model::{BoxFuture, Scope};
use toolyard_proto::CallError;

use super::ServeBody;
use super::admit::Admitted;
use super::endpoint::Endpoint;
use super::post;
use super::reply::{self, HttpResponse};
use super::ui_access::CODE_LIFE;

/// The path of the control API.
pub(super) const BASE: &str = "/api/v1";
/// The path of the metrics; the same as `/api/v1/metrics`.
pub(super) const METRICS: &str = "/metrics";
/// The path at which an operator asks for a code for the dashboard, below [`BASE`].
const CODES: &str = "ui/codes";
/// The path at which the dashboard exchanges its code for a token, below [`BASE`].
pub(super) const EXCHANGE: &str = "ui/sessions";

/// Answers one request to the control API.
pub(super) async fn answer(
    endpoint: &Arc<Endpoint>,
    control: &Arc<dyn Control>,
    admitted: Admitted,
    request: Request<Incoming>,
) -> HttpResponse {
    let (head, body) = request.into_parts();
    let (body, _reservation) = match post::read_body(body, endpoint).await {
        Ok(read) => read,
        Err(refusal) => return *refusal,
    };
    let request = ControlRequest {
        method: head.method,
        path: path_of(head.uri.path()).to_owned(),
        query: head.uri.query().map(str::to_owned),
        body,
        last_event_id: head.headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).map(str::to_owned),
        is_operator: admitted.is_operator,
        principal: admitted.principal,
    };
    if let Some(response) = dashboard_access(endpoint, &request) {
        return response;
    }
    match control.control(request).await {
        ControlResponse::Text { content_type, text } => {
            let mut response = reply::text(StatusCode::OK, text);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            response
        }
        ControlResponse::Whole { status, json } => whole(status, json),
        ControlResponse::Parts { content_type, parts } => {
            let frames = parts.map(|part| match part {
                Ok(bytes) => Ok(Frame::data(bytes)),
                Err(message) => Err(CallError::internal(message).into()),
            });
            let mut response = reply::events(ServeBody::live(StreamBody::new(frames)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            response
        }
        ControlResponse::Events(events) => {
            reply::events(ServeBody::live(ControlEvents::new(events, endpoint)))
        }
    }
}

/// The path below the base; metrics have a path of their own.
fn path_of(path: &str) -> &str {
    if path == METRICS { METRICS } else { path.strip_prefix(BASE).unwrap_or_default() }
}

/// Codes and tokens of the dashboard, which are made where they are checked.
fn dashboard_access(endpoint: &Endpoint, request: &ControlRequest) -> Option<HttpResponse> {
    let path = request.path.trim_matches('/');
    if path != CODES && path != EXCHANGE {
        return None;
    }
    let answered = if request.method != Method::POST {
        Err(ControlResponse::method_not_allowed())
    } else if path == CODES {
        make_code(endpoint, request)
    } else {
        exchange(endpoint, request)
    };
    match answered.unwrap_or_else(|error| error) {
        ControlResponse::Whole { status, json } => Some(whole(status, json)),
        ControlResponse::Text { .. } | ControlResponse::Parts { .. } | ControlResponse::Events(_) => None,
    }
}

fn make_code(endpoint: &Endpoint, request: &ControlRequest) -> Result<ControlResponse, ControlResponse> {
    request.require_operator()?;
    let code = endpoint.ui_access.make_code().ok_or_else(|| {
        let message = "the system gave no random numbers for a code";
        ControlResponse::error(StatusCode::INTERNAL_SERVER_ERROR, "no_randomness", message)
    })?;
    let seconds = CODE_LIFE.as_secs();
    Ok(ControlResponse::json(
        &json!({ "code": code, "expiresInSeconds": seconds, "path": format!("/ui/#code={code}") }),
    ))
}

fn exchange(endpoint: &Endpoint, request: &ControlRequest) -> Result<ControlResponse, ControlResponse> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let token = body["code"].as_str().and_then(|code| endpoint.ui_access.exchange(code));
    let token = token.ok_or_else(|| {
        let message =
            "the code is wrong, was used already or is older than a minute; run `toolyard ui` again";
        ControlResponse::error(StatusCode::FORBIDDEN, "bad_code", message)
    })?;
    Ok(ControlResponse::json(&json!({ "token": token })))
}

fn whole(status: StatusCode, json: Bytes) -> HttpResponse {
    let mut response = reply::json(ServeBody::full(json));
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Writes events as they arrive, and a comment after every silence, so that a disconnect of the client is detected.
struct ControlEvents {
    events: BoxStream<'static, ControlEvent>,
    ending: BoxFuture<()>,
    keep_alive: std::time::Duration,
    silence: Pin<Box<Sleep>>,
}

impl ControlEvents {
    fn new(events: BoxStream<'static, ControlEvent>, endpoint: &Endpoint) -> Self {
        let keep_alive = endpoint.options.keep_alive;
        let ending: Scope = endpoint.ending.clone();
        let ending = Box::pin(async move { ending.ended().await });
        Self { events, ending, keep_alive, silence: Box::pin(sleep(keep_alive)) }
    }
}

impl Body for ControlEvents {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let this = &mut *self;
        let written = match this.events.poll_next_unpin(cx) {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(event)) => encode(&event),
            Poll::Pending if this.ending.as_mut().poll(cx).is_ready() => return Poll::Ready(None),
            Poll::Pending => {
                ready!(this.silence.as_mut().poll(cx));
                Bytes::from_static(b": keep-alive\n\n")
            }
        };
        this.silence.as_mut().reset(tokio::time::Instant::now() + this.keep_alive);
        Poll::Ready(Some(Ok(Frame::data(written))))
    }
}

fn encode(event: &ControlEvent) -> Bytes {
    let mut out = BytesMut::with_capacity(event.data.len() + 64);
    if let Some(id) = &event.id {
        put_line(&mut out, "id", id);
    }
    put_line(&mut out, "event", event.name);
    for line in event.data.lines() {
        put_line(&mut out, "data", line);
    }
    out.put_u8(b'\n');
    out.freeze()
}

fn put_line(out: &mut BytesMut, field: &str, value: &str) {
    out.put_slice(field.as_bytes());
    out.put_slice(b": ");
    out.put_slice(value.as_bytes());
    out.put_u8(b'\n');
}
