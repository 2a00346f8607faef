//! HTTP+SSE (2024-11-05): a GET opens an event stream whose first event states where
//! to post, and everything else is sent on that stream. Apart from that, it is a stream connection
//! like any other: the client has disconnected when its event stream has ended.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body::{Body, Frame};
use hyper::body::Incoming as IncomingBody;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, timeout};
use toolyard_model::answer::RelayError;
use toolyard_model::{Principal, Scope, View};
use toolyard_proto::Incoming;
use toolyard_proto::codec::line::{LineDecoder, one_line};
use toolyard_proto::codec::{MAX_MESSAGE, sse};

use super::sessions::mint;
use crate::ServeBody;
use crate::admit::Admitted;
use crate::calls::EndOnDrop;
use crate::endpoint::Endpoint;
use crate::post;
use crate::reply::{self, HttpResponse};
use crate::request;
use crate::stream::{Start, serve_opened};

/// How much may wait between the wire and the connection inside, each way.
const BUFFER: usize = 64 * 1024;
const ROOM: usize = 16;

/// A GET opens a stream; a POST brings a message to it.
pub(crate) async fn answer(
    endpoint: &Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    request: Request<IncomingBody>,
) -> HttpResponse {
    let session = request.uri().query().and_then(session_in).map(str::to_owned);
    match (request.method(), session) {
        (&Method::GET, _) => open(endpoint, view, admitted, request.uri().path()),
        (&Method::POST, Some(session)) => take(endpoint, &view, &admitted, &session, request).await,
        _ => {
            let text = "GET opens an event stream here, which names the address to post to; Streamable HTTP is \
                        at /mcp\n";
            let mut response = reply::text(StatusCode::METHOD_NOT_ALLOWED, text);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            response
        }
    }
}

fn session_in(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("sessionId="))
}

fn open(endpoint: &Arc<Endpoint>, view: View, admitted: Admitted, path: &str) -> HttpResponse {
    let Some((id, _)) = mint() else {
        return reply::text(StatusCode::INTERNAL_SERVER_ERROR, "no randomness for a session id\n");
    };
    let address = format!("event: endpoint\ndata: {path}?sessionId={id}\n\n");
    let (posted, messages) = mpsc::channel(ROOM);
    let (say, events) = mpsc::channel(ROOM);
    let gone = Scope::new();
    let until = admitted.until;
    let client = EventClient { view: view.clone(), principal: admitted.principal.clone(), posted };
    endpoint.event_clients.lock().insert(id.clone(), client);
    endpoint.scope.spawn(run(endpoint.clone(), view, admitted, Wire { messages, say, gone: gone.clone() }));
    let body = EventBody {
        first: Some(address.into()),
        events,
        silence: Box::pin(tokio::time::sleep(endpoint.options.keep_alive)),
        keep_alive: endpoint.options.keep_alive,
        _registered: Registered { endpoint: endpoint.clone(), id },
        _gone: EndOnDrop(gone),
    };
    reply::events(ServeBody::live_until(body, until))
}

/// A message for an open stream; the answer to it is sent there.
async fn take(
    endpoint: &Endpoint,
    view: &View,
    admitted: &Admitted,
    session: &str,
    request: Request<IncomingBody>,
) -> HttpResponse {
    let Some(posted) = endpoint.event_clients.find(session, view, &admitted.principal) else {
        return reply::text(StatusCode::NOT_FOUND, "there is no such session: open the event stream again\n");
    };
    let (parts, body) = request.into_parts();
    let bytes = match post::read(endpoint, &parts.headers, body).await {
        Ok((bytes, _reservation)) => bytes,
        Err(refusal) => return *refusal,
    };
    if let Err(error) = Incoming::parse(&bytes) {
        return request::malformed_message(&error);
    }
    match timeout(endpoint.options.patience, posted.send(one_line(bytes))).await {
        Ok(Ok(())) => reply::text(StatusCode::ACCEPTED, "Accepted"),
        Ok(Err(_)) => reply::text(StatusCode::NOT_FOUND, "the event stream of this session has ended\n"),
        Err(_) => reply::text(
            StatusCode::SERVICE_UNAVAILABLE,
            "the session has too many unprocessed messages; try again later\n",
        ),
    }
}

/// The clients whose event streams are open.
#[derive(Default)]
pub(crate) struct EventClients(Mutex<HashMap<Arc<str>, EventClient>>);

struct EventClient {
    view: View,
    principal: Principal,
    posted: mpsc::Sender<Bytes>,
}

impl EventClients {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, EventClient>> {
        self.0.lock()
    }

    /// A session is visible only to the principal that opened it, in the view in which it was opened.
    fn find(&self, id: &str, view: &View, principal: &Principal) -> Option<mpsc::Sender<Bytes>> {
        let clients = self.lock();
        let is_theirs = |client: &&EventClient| {
            client.view == *view
                && client.principal == *principal
                && client.principal.roles() == principal.roles()
        };
        let client = clients.get(id).filter(is_theirs)?;
        Some(client.posted.clone())
    }
}

/// Forgets a client when its event stream ends.
struct Registered {
    endpoint: Arc<Endpoint>,
    id: Arc<str>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.endpoint.event_clients.lock().remove(&self.id);
    }
}

/// The outer side of a connection.
struct Wire {
    messages: mpsc::Receiver<Bytes>,
    say: mpsc::Sender<Bytes>,
    /// Ends with the event stream.
    gone: Scope,
}

/// Serves the client like one that sends lines. When its event stream is gone, its lines end, and the connection too.
async fn run(endpoint: Arc<Endpoint>, view: View, admitted: Admitted, wire: Wire) {
    let ((near_in, far_in), (near_out, far_out)) = (duplex(BUFFER), duplex(BUFFER));
    let start =
        Start { view, admitted, decoder: LineDecoder::new(MAX_MESSAGE), first: None, drain: Duration::ZERO };
    let scope = endpoint.scope.clone();
    let serving = serve_opened(far_in, far_out, endpoint, start, scope);
    tokio::join!(serving, bring(wire.messages, near_in, wire.gone), carry(near_out, wire.say));
}

async fn bring(mut messages: mpsc::Receiver<Bytes>, mut lines: DuplexStream, gone: Scope) {
    loop {
        let message = tokio::select! {
            Some(message) = messages.recv() => message,
            () = gone.ended() => return,
            else => return,
        };
        let mut line = BytesMut::from(message);
        line.extend_from_slice(b"\n");
        if lines.write_all(&line).await.is_err() {
            return;
        }
    }
}

async fn carry(mut lines: DuplexStream, say: mpsc::Sender<Bytes>) {
    let mut decoder = LineDecoder::new(usize::MAX);
    loop {
        while let Ok(Some(line)) = decoder.next_line() {
            if say.send(sse::encode(&line, None)).await.is_err() {
                return;
            }
        }
        decoder.buffer().reserve(BUFFER);
        if !matches!(lines.read_buf(decoder.buffer()).await, Ok(1..)) {
            return;
        }
    }
}

/// The event stream of one client.
struct EventBody {
    first: Option<Bytes>,
    events: mpsc::Receiver<Bytes>,
    silence: Pin<Box<Sleep>>,
    keep_alive: Duration,
    _registered: Registered,
    _gone: EndOnDrop,
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let bytes = if let Poll::Ready(event) = self.events.poll_recv(cx) {
            event
        } else {
            ready!(self.silence.as_mut().poll(cx));
            Some(Bytes::from_static(b":\n\n"))
        };
        let next = Instant::now() + self.keep_alive;
        self.silence.as_mut().reset(next);
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
