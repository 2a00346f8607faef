//! One posted message, from the bytes of its body to the running call: [`start`] reads from top to bottom.
//!
//! [`check_and_start`] first checks type, size and nesting, unless `post` has done so while it read the body. Then the
//! envelope is parsed, and the era decides which code answers the message. The headers of a modern request repeat parts
//! of its body and must agree with it. Nothing here is async, so the future that waits for the answer does not have to
//! store the message.

#[cfg(test)]
mod tests;

use std::mem;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, StatusCode};
pub(crate) use toolyard_model::headers::PROTOCOL_VERSION as VERSION;
use toolyard_model::headers::{METHOD, NAME};
use toolyard_model::{ClientKey, Origin, Request, View};
use toolyard_proto::error::code;
use toolyard_proto::message::nests_too_deep;
use toolyard_proto::modern::{Claim, Found, RequestMeta, find_parts, header_text, name_member};
use toolyard_proto::{
    CallError, Era, Incoming, Message, Method, Notification, ParseError, Raw, RequestMessage, Revision,
    RpcError, era,
};

use super::elsewhere;
use super::endpoint::{Endpoint, next_number};
use super::head::{Fields, Twice, text};
use super::legacy::{self, http::SESSION};
use super::modern::RunningCall;
use super::reply::{self, HttpResponse, Reply};
use crate::admit::Admitted;

/// The folder that the client works in.
pub(crate) const FOLDER: HeaderName = HeaderName::from_static("toolyard-folder");
const PARAM_PREFIX: &str = "mcp-param-";

/// How a posted message is answered.
pub(super) enum PostedMessage<'a> {
    Answered(HttpResponse),
    Running(RunningCall),
    /// A message of a legacy client, or one that another node answers. Boxed, since it is larger than a modern call.
    Boxed(Pin<Box<dyn Future<Output = HttpResponse> + Send + 'a>>),
}

impl PostedMessage<'_> {
    pub(super) async fn respond(self, endpoint: &Arc<Endpoint>) -> Reply {
        match self {
            Self::Answered(response) => response.into(),
            Self::Running(call) => call.respond(endpoint).await,
            Self::Boxed(answering) => answering.await.into(),
        }
    }
}

/// Like [`start`], for a message that has not been checked yet.
pub(super) fn check_and_start<'a>(
    endpoint: &'a Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    fields: Fields<'_>,
    body: &Bytes,
) -> PostedMessage<'a> {
    let refusal = refuse_by_headers(fields)
        .or_else(|| (body.len() > endpoint.options.body_limit).then(too_large))
        .or_else(|| refuse_by_depth(body));
    refusal.map_or_else(|| start(endpoint, view, admitted, fields, body), PostedMessage::Answered)
}

/// Parses the message and starts the work on its answer.
pub(super) fn start<'a>(
    endpoint: &'a Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    fields: Fields<'_>,
    body: &Bytes,
) -> PostedMessage<'a> {
    if let Some(node) = elsewhere::session(endpoint, fields) {
        return depart(endpoint, node, (view, admitted), fields, body);
    }
    let message = match Incoming::parse(body) {
        Ok(Incoming::One(Message::Request(message))) => message,
        Ok(other) => return start_other(endpoint, view, admitted, fields, other),
        Err(error) => return PostedMessage::Answered(malformed_message(&error)),
    };
    if let Some(node) = elsewhere::parked(endpoint, &admitted, message.params.as_ref()) {
        return depart(endpoint, node, (view, admitted), fields, body);
    }
    let mut found = find_parts(&message.method, message.params.as_ref());
    let claim = found.envelope.claim();
    if era::classify(&message.method, &claim, || fields.text(&VERSION)) == Era::Legacy {
        let headers = fields.to_map();
        return PostedMessage::Boxed(Box::pin(async move {
            legacy::http::request(endpoint, view, admitted, &headers, message).await
        }));
    }
    if view == View::Hub {
        // The hub lives in a session: clients of both eras fall back to `initialize` on this.
        let text = "this view needs a session: send initialize";
        return PostedMessage::Answered(reply::text(StatusCode::BAD_REQUEST, text));
    }
    let RequestMessage { id, method, .. } = message;
    let params = mem::take(&mut found.params);
    let meta = match check_modern(fields, &method, &claim, found) {
        Ok(meta) => meta,
        Err(error) => return PostedMessage::Answered(reply::error(Era::Modern, &id, &error)),
    };
    let client = client_key(&admitted);
    let until = admitted.until;
    // A node that relays a call names the gateway that its client has called; other clients call this one.
    let called =
        endpoint.options.nodes.as_ref().filter(|_| !admitted.is_relayed).map(|nodes| nodes.gateway());
    let admitted = Admitted { called: called.or(admitted.called), ..admitted };
    let origin = origin(view, admitted, client, meta);
    let request = Request::new(origin, id, method, params).with_headers(param_headers(fields));
    PostedMessage::Running(RunningCall::start(endpoint, request, until))
}

/// Reads the envelope of a modern request and checks it against the headers and the methods of the era.
fn check_modern(
    fields: Fields<'_>,
    method: &Method,
    claim: &Claim,
    found: Found,
) -> Result<RequestMeta, CallError> {
    let meta = check_headers(fields, method, claim, found)?;
    if era::is_removed(method) { Err(CallError::unknown_method(method.as_str())) } else { Ok(meta) }
}

/// The key of the client. Without credentials, each request counts as a separate client.
pub(crate) fn client_key(admitted: &Admitted) -> ClientKey {
    if admitted.proven {
        ClientKey::Principal(admitted.principal.clone())
    } else {
        ClientKey::Request(next_number())
    }
}

pub(crate) fn origin(view: View, admitted: Admitted, client: ClientKey, meta: RequestMeta) -> Arc<Origin> {
    let is_proven = admitted.proves_user();
    Arc::new(
        Origin::new(view, admitted.principal, client, meta.revision)
            .with_capabilities(meta.capabilities)
            .with_client_info(meta.client_info)
            .with_log_level(meta.log_level)
            .with_place(is_proven, admitted.folder)
            .with_relayed(admitted.is_relayed)
            .with_called(admitted.called)
            .with_transport(admitted.transport),
    )
}

/// Checks that the headers repeat what the body states. A mismatch of the version is reported before a version that is
/// not supported.
fn check_headers(
    fields: Fields<'_>,
    method: &Method,
    claim: &Claim,
    found: Found,
) -> Result<RequestMeta, CallError> {
    let version = single(fields, &VERSION)?;
    if let Claim::Version(claimed) = claim
        && !version.is_some_and(|version| is_same_text(claimed, version))
        && let Some(claimed) = claimed.text()
    {
        agree("MCP-Protocol-Version", version, &claimed)?;
    }
    let meta = RequestMeta::judge(found.envelope)?;
    agree("Mcp-Method", single(fields, &METHOD)?, method.as_str())?;
    if name_member(method).is_some() {
        let (header, named) = (single(fields, &NAME)?, found.name.as_ref());
        if !header.zip(named).is_some_and(|(header, named)| is_same_text(named, header)) {
            check_name(header, named.and_then(Raw::text).as_deref())?;
        }
    }
    Ok(meta)
}

/// Whether a header equals a string of the body, with nothing encoded in either. This is nearly always so,
/// and the fastest to check.
fn is_same_text(body: &Raw, header: &[u8]) -> bool {
    let inside = body.as_bytes().strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let is_plain = header.is_ascii() && !header.contains(&b'\\') && !header.starts_with(b"=?");
    is_plain && inside == Some(header)
}

fn check_name(header: Option<&[u8]>, named: Option<&str>) -> Result<(), CallError> {
    let Some(named) = named else {
        // If the body has no name either, the handler reports the missing name.
        return header.map_or(Ok(()), |_| {
            Err(CallError::header_mismatch("the Mcp-Name header is set, but the body has no name"))
        });
    };
    let header = header.ok_or_else(|| missing("Mcp-Name"))?;
    let decoded = text(header).and_then(header_text).ok_or_else(|| malformed("Mcp-Name"))?;
    if decoded == named { Ok(()) } else { Err(mismatch("Mcp-Name", &decoded, named)) }
}

fn agree(name: &str, header: Option<&[u8]>, body: &str) -> Result<(), CallError> {
    let header = header.ok_or_else(|| missing(name))?;
    if header == body.as_bytes() && body.is_ascii() {
        return Ok(());
    }
    Err(text(header).map_or_else(|| malformed(name), |header| mismatch(name, header, body)))
}

fn mismatch(name: &str, header: &str, body: &str) -> CallError {
    CallError::header_mismatch(format!("{name} is {header:?}, but the body has {body:?}"))
}

fn malformed(name: &str) -> CallError {
    CallError::header_mismatch(format!("the {name} header is malformed"))
}

fn missing(name: &str) -> CallError {
    CallError::header_mismatch(format!("the {name} header is required"))
}

/// The value of a header that may occur only once.
fn single<'a>(fields: Fields<'a>, name: &HeaderName) -> Result<Option<&'a [u8]>, CallError> {
    match fields.once(name) {
        Ok(value) => Ok(value.map(<[u8]>::trim_ascii)),
        Err(Twice) => Err(CallError::header_mismatch(format!("duplicate {name} header"))),
    }
}

/// The `Mcp-Param-*` headers, to be passed on as they came.
fn param_headers(fields: Fields<'_>) -> Option<Box<HeaderMap>> {
    fields.starting(PARAM_PREFIX)
}

pub(super) fn refuse_by_headers(fields: Fields<'_>) -> Option<HttpResponse> {
    if !fields.first(&CONTENT_TYPE).is_some_and(is_json) {
        return Some(reply::text(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the content type must be application/json\n",
        ));
    }
    let mut accepted = fields.all(&ACCEPT).peekable();
    if accepted.peek().is_none() || accepted.any(is_acceptable) {
        return None;
    }
    Some(reply::text(
        StatusCode::NOT_ACCEPTABLE,
        "the client must accept application/json and text/event-stream\n",
    ))
}

fn is_acceptable(accept: &[u8]) -> bool {
    // The value from the specification, which nearly all clients send.
    let is_exact = accept == b"application/json, text/event-stream";
    let kinds = ["application/json", "text/event-stream", "*/*", "application/*"];
    is_exact || text(accept).is_some_and(|accept| kinds.iter().any(|kind| accept.contains(kind)))
}

fn is_json(content_type: &[u8]) -> bool {
    let kind = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

pub(super) fn too_large() -> HttpResponse {
    reply::text(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large\n")
}

pub(super) fn refuse_by_depth(bytes: &[u8]) -> Option<HttpResponse> {
    nests_too_deep(bytes).then(|| {
        let error = RpcError::new(code::INVALID_REQUEST, "the message nests too deeply");
        reply::refusal(StatusCode::BAD_REQUEST, None, &error)
    })
}

/// Passes a message on to the node that holds its session or parked call.
fn depart<'a>(
    endpoint: &'a Arc<Endpoint>,
    node: String,
    (view, admitted): (View, Admitted),
    fields: Fields<'_>,
    body: &Bytes,
) -> PostedMessage<'a> {
    let departing = elsewhere::Departing {
        node,
        method: http::Method::POST,
        view,
        admitted,
        headers: fields.to_map(),
        body: body.clone(),
    };
    PostedMessage::Boxed(Box::pin(departing.answer(endpoint)))
}

/// Starts the answer to a message that is not a single request: a notification, an answer of the client or a batch.
fn start_other<'a>(
    endpoint: &'a Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    fields: Fields<'_>,
    incoming: Incoming,
) -> PostedMessage<'a> {
    match incoming {
        Incoming::Batch(batch) => {
            let headers = fields.to_map();
            let answering =
                async move { legacy::http::batch(endpoint, &view, &admitted, &headers, batch).await };
            PostedMessage::Boxed(Box::pin(answering))
        }
        Incoming::One(Message::Notification(notification)) if speaks_modern(fields, &notification) => {
            PostedMessage::Answered(notice(endpoint, view, admitted, notification))
        }
        Incoming::One(message) => {
            let headers = fields.to_map();
            let answering =
                async move { legacy::http::traffic(endpoint, &view, &admitted, &headers, message).await };
            PostedMessage::Boxed(Box::pin(answering))
        }
    }
}

/// Whether a notification is from a modern client. Notifications have no envelope, so the headers decide; a client with
/// a session is not modern.
fn speaks_modern(fields: Fields<'_>, notification: &Notification) -> bool {
    let modern_version = fields.text(&VERSION).and_then(Revision::parse).is_some_and(Revision::is_modern);
    let claimed = notification
        .params
        .as_ref()
        .is_some_and(|params| toolyard_proto::modern::claim(Some(params)) != Claim::None);
    modern_version || claimed && fields.first(&SESSION).is_none()
}

/// Over HTTP a modern client cancels by closing the stream, so `notifications/cancelled` has no effect.
fn notice(endpoint: &Endpoint, view: View, admitted: Admitted, notification: Notification) -> HttpResponse {
    if notification.method != Method::CANCELLED {
        let client = client_key(&admitted);
        let origin = Origin::new(view, admitted.principal, client, Revision::NEWEST);
        let origin = Arc::new(origin.with_transport(admitted.transport));
        let Endpoint { handler, counts, scope, .. } = endpoint;
        endpoint.notify_limits.of(&origin.principal).pass(handler, &origin, notification, counts, scope);
    }
    reply::empty(StatusCode::ACCEPTED)
}

pub(super) fn malformed_message(error: &ParseError) -> HttpResponse {
    reply::refusal(StatusCode::BAD_REQUEST, error.id.as_ref(), &error.to_rpc())
}

pub(super) fn version(headers: &HeaderMap) -> Option<&str> {
    Fields::Map(headers).text(&VERSION)
}
