//! A posted body becomes messages: size, type, nesting and shape are checked, then the era decides what handles them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body;
use hyper::body::Incoming as IncomingBody;
use tokio::time::timeout;
use toolyard_model::{Origin, View};
use toolyard_proto::error::code;
use toolyard_proto::message::nests_too_deep;
use toolyard_proto::modern::find_parts;
use toolyard_proto::{
    Era, Incoming, Message, Method, Notification, ParseError, RequestMessage, Revision, RpcError, era,
};

use super::body_budget::Reservation;
use super::elsewhere;
use super::endpoint::Endpoint;
use super::fields::{Fields, text};
use super::headers::VERSION;
use super::legacy::{self, http::SESSION};
use super::modern::{self, Arrived};
use super::reply::{self, HttpResponse, Reply};
use crate::admit::Admitted;

pub(super) fn post(
    endpoint: &Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    request: Request<IncomingBody>,
) -> impl Future<Output = HttpResponse> {
    let (Parts { headers, .. }, body) = request.into_parts();
    async move {
        // The reservation is held until the request is answered.
        let (bytes, _reservation) = match read(endpoint, &headers, body).await {
            Ok(read) => read,
            Err(refusal) => return *refusal,
        };
        begin(endpoint, view, admitted, Fields::Map(&headers), &bytes).respond(endpoint).await.into_http()
    }
}

/// The same for a request whose body is there already.
pub(super) fn whole<'a>(
    endpoint: &'a Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    fields: Fields<'_>,
    body: &Bytes,
) -> Routed<'a> {
    let refusal = refuse_by_headers(fields)
        .or_else(|| (body.len() > endpoint.options.body_limit).then(too_large))
        .or_else(|| refuse_by_depth(body));
    refusal.map_or_else(|| begin(endpoint, view, admitted, fields, body), Routed::Answered)
}

/// What a message leads to. Made without waiting, so that nothing of the message is stored in the future
/// that waits for its answer.
pub(super) enum Routed<'a> {
    Answered(HttpResponse),
    Running(modern::Running),
    Older(Pin<Box<dyn Future<Output = HttpResponse> + Send + 'a>>),
}

impl Routed<'_> {
    pub(super) async fn respond(self, endpoint: &Arc<Endpoint>) -> Reply {
        match self {
            Self::Answered(response) => response.into(),
            Self::Running(call) => call.respond(endpoint).await,
            Self::Older(answering) => answering.await.into(),
        }
    }
}

fn begin<'a>(
    endpoint: &'a Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    fields: Fields<'_>,
    bytes: &Bytes,
) -> Routed<'a> {
    if let Some(node) = elsewhere::session(endpoint, fields) {
        return depart(endpoint, node, (view, admitted), fields, bytes);
    }
    Routed::Answered(match Incoming::parse(bytes) {
        Err(error) => malformed(&error),
        Ok(Incoming::Batch(batch)) => {
            let headers = fields.to_map();
            let answering =
                async move { legacy::http::batch(endpoint, &view, &admitted, &headers, batch).await };
            return Routed::Older(Box::pin(answering));
        }
        Ok(Incoming::One(Message::Request(message))) => {
            if let Some(node) = elsewhere::parked(endpoint, message.params.as_ref()) {
                return depart(endpoint, node, (view, admitted), fields, bytes);
            }
            return one_request(endpoint, view, admitted, fields, message);
        }
        Ok(Incoming::One(Message::Notification(notification))) if speaks_modern(fields, &notification) => {
            notice(endpoint, view, admitted, notification)
        }
        Ok(Incoming::One(message)) => {
            let headers = fields.to_map();
            let answering =
                async move { legacy::http::traffic(endpoint, &view, &admitted, &headers, message).await };
            return Routed::Older(Box::pin(answering));
        }
    })
}

/// Passes a message on to the node that holds its session or parked call.
fn depart<'a>(
    endpoint: &'a Arc<Endpoint>,
    node: String,
    (view, admitted): (View, Admitted),
    fields: Fields<'_>,
    bytes: &Bytes,
) -> Routed<'a> {
    let (method, headers, body) = (http::Method::POST, fields.to_map(), bytes.clone());
    let departing = elsewhere::Departing { node, method, view, admitted, headers, body };
    Routed::Older(Box::pin(departing.answer(endpoint)))
}

/// The body of a POST, if it can be a message at all.
pub(super) async fn read(
    endpoint: &Endpoint,
    headers: &HeaderMap,
    body: IncomingBody,
) -> Result<(Bytes, Reservation), Box<HttpResponse>> {
    let fields = Fields::Map(headers);
    if let Some(refusal) =
        refuse_by_headers(fields).or_else(|| refuse_by_length(fields, endpoint.options.body_limit))
    {
        return Err(Box::new(refusal));
    }
    let (bytes, reservation) = read_body(body, endpoint).await?;
    refuse_by_depth(&bytes).map_or(Ok((bytes, reservation)), |refusal| Err(Box::new(refusal)))
}

fn refuse_by_depth(bytes: &[u8]) -> Option<HttpResponse> {
    nests_too_deep(bytes).then(|| {
        let error = RpcError::new(code::INVALID_REQUEST, "the message nests too deeply");
        reply::refusal(StatusCode::BAD_REQUEST, None, &error)
    })
}

fn one_request<'a>(
    endpoint: &'a Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    fields: Fields<'_>,
    message: RequestMessage,
) -> Routed<'a> {
    let found = find_parts(&message.method, message.params.as_ref());
    let claim = found.envelope.claim();
    match era::classify(&message.method, &claim, || fields.text(&VERSION)) {
        Era::Modern => modern::begin(endpoint, view, admitted, fields, Arrived { message, claim, found }),
        Era::Legacy => {
            let headers = fields.to_map();
            Routed::Older(Box::pin(async move {
                legacy::http::request(endpoint, view, admitted, &headers, message).await
            }))
        }
    }
}

pub(super) fn version(headers: &HeaderMap) -> Option<&str> {
    Fields::Map(headers).text(&VERSION)
}

pub(super) fn malformed(error: &ParseError) -> HttpResponse {
    reply::refusal(StatusCode::BAD_REQUEST, error.id.as_ref(), &error.to_rpc())
}

fn refuse_by_headers(fields: Fields<'_>) -> Option<HttpResponse> {
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

fn refuse_by_length(fields: Fields<'_>, limit: usize) -> Option<HttpResponse> {
    let length = fields.text(&CONTENT_LENGTH)?.parse::<usize>().ok()?;
    (length > limit).then(too_large)
}

fn is_acceptable(accept: &[u8]) -> bool {
    // The value from the specification, which nearly all clients send.
    let is_usual = accept == b"application/json, text/event-stream";
    let kinds = ["application/json", "text/event-stream", "*/*", "application/*"];
    is_usual || text(accept).is_some_and(|accept| kinds.iter().any(|kind| accept.contains(kind)))
}

fn is_json(content_type: &[u8]) -> bool {
    let kind = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

fn too_large() -> HttpResponse {
    reply::text(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large\n")
}

/// The whole body. Most arrive together with the headers; only a late one costs a timer.
pub(super) async fn read_body(
    mut body: IncomingBody,
    endpoint: &Endpoint,
) -> Result<(Bytes, Reservation), Box<HttpResponse>> {
    let mut gathered = BodyReader {
        first: Bytes::new(),
        more: BytesMut::new(),
        expected: body.size_hint().exact().and_then(|length| usize::try_from(length).ok()).unwrap_or(0),
        limit: endpoint.options.body_limit,
        reservation: endpoint.bodies.reserve(),
    };
    let at_once = poll_fn(|cx| Poll::Ready(gathered.poll(&mut body, cx))).await;
    let gathering = match at_once {
        Poll::Ready(done) => done,
        Poll::Pending => Box::pin(in_time(endpoint, poll_fn(|cx| gathered.poll(&mut body, cx)))).await,
    };
    gathering.map_err(Box::new)?;
    Ok(gathered.take())
}

/// Waits for a late body, but not while the endpoint ends.
async fn in_time(
    endpoint: &Endpoint,
    gathering: impl Future<Output = Result<(), HttpResponse>>,
) -> Result<(), HttpResponse> {
    let timely = timeout(endpoint.options.patience, gathering);
    match endpoint.ending.unless_ended(timely).await {
        Some(Ok(gathered)) => gathered,
        Some(Err(_)) => {
            let text = "the request body did not arrive in time\n";
            Err(reply::text(StatusCode::REQUEST_TIMEOUT, text))
        }
        None => Err(reply::text(StatusCode::SERVICE_UNAVAILABLE, "ending\n")),
    }
}

/// A body as it arrives. Most arrive in one piece, which is kept as it is; others are collected in one buffer.
struct BodyReader {
    first: Bytes,
    more: BytesMut,
    /// How long the body is, if that is known.
    expected: usize,
    limit: usize,
    reservation: Reservation,
}

impl BodyReader {
    fn poll(&mut self, body: &mut IncomingBody, cx: &mut Context<'_>) -> Poll<Result<(), HttpResponse>> {
        while !body.is_end_stream() {
            match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                None => break,
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.add(data).map_err(|refusal| *refusal)?;
                    }
                }
                Some(Err(_)) => {
                    let text = "the request body could not be read\n";
                    return Poll::Ready(Err(reply::text(StatusCode::BAD_REQUEST, text)));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn add(&mut self, data: Bytes) -> Result<(), Box<HttpResponse>> {
        if self.first.len() + self.more.len() + data.len() > self.limit {
            return Err(Box::new(too_large()));
        }
        if !self.reservation.extend(data.len()) {
            return Err(Box::new(too_many_bodies()));
        }
        if self.first.is_empty() && self.more.is_empty() {
            self.first = data;
            return Ok(());
        }
        if self.more.is_empty() {
            let first = std::mem::take(&mut self.first);
            self.more = BytesMut::with_capacity(self.expected.max(first.len() + data.len()));
            self.more.extend_from_slice(&first);
        }
        self.more.extend_from_slice(&data);
        Ok(())
    }

    fn take(self) -> (Bytes, Reservation) {
        let bytes = if self.more.is_empty() { self.first } else { self.more.freeze() };
        (bytes, self.reservation)
    }
}

/// The bodies of other requests use all the memory that is allowed for them.
fn too_many_bodies() -> HttpResponse {
    let text = "too many large requests are in progress; try again later\n";
    let mut response = reply::text(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// A notification has no envelope; a client with a session is not modern.
fn speaks_modern(fields: Fields<'_>, notification: &Notification) -> bool {
    let modern_version = fields.text(&VERSION).and_then(Revision::parse).is_some_and(Revision::is_modern);
    let claimed = notification.params.as_ref().is_some_and(|params| {
        toolyard_proto::modern::claim(Some(params)) != toolyard_proto::modern::Claim::None
    });
    modern_version || claimed && fields.first(&SESSION).is_none()
}

/// Over HTTP a modern client cancels by closing the stream, so `notifications/cancelled` has no effect.
fn notice(endpoint: &Endpoint, view: View, admitted: Admitted, notification: Notification) -> HttpResponse {
    if notification.method != Method::CANCELLED {
        let client = modern::client_key(&admitted);
        let origin = Arc::new(Origin::new(view, admitted.principal, client, Revision::NEWEST));
        let Endpoint { handler, counts, scope, .. } = endpoint;
        endpoint.notify_limits.of(&origin.principal).pass(handler, &origin, notification, counts, scope);
    }
    reply::empty(StatusCode::ACCEPTED)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::Options;
    use toolyard_model::{Answer, BoxFuture, ClientKey, Handler, Peer, Principal, Scope};

    /// The clients that sent messages.
    #[derive(Default)]
    struct Senders(Mutex<Vec<Principal>>);

    impl Handler for Senders {
        fn handle(&self, _: toolyard_model::Request, _: Peer) -> BoxFuture<Answer> {
            Box::pin(std::future::pending())
        }

        fn notice(&self, origin: &Arc<Origin>, _: Notification) {
            self.0.lock().unwrap().push(origin.principal.clone());
        }

        fn ended(&self, _: &ClientKey) {}
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_storm_of_posted_notifications_a_bounded_part_is_passed_on_for_each_principal() {
        let (received, scope) = (Arc::new(Senders::default()), Scope::new());
        let endpoint = Endpoint::new(received.clone(), Options::default(), &scope);
        let say = |name: &str| {
            let admitted = Admitted::proven(Principal::token(name));
            notice(&endpoint, View::Everything, admitted, Notification::new(Method::ROOTS_CHANGED, None));
        };
        (0..1_000).for_each(|_| say("ann"));
        (0..50).for_each(|_| say("bob"));
        let count =
            |name: &str| received.0.lock().unwrap().iter().filter(|who| **who.name() == *name).count();
        assert_eq!((count("ann"), count("bob")), (100, 50));
        assert_eq!(endpoint.counts.dropped.load(Ordering::Relaxed), 900);
        // The last change is passed on when the burst is over.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        assert_eq!((count("ann"), count("bob")), (101, 50));
    }
}
