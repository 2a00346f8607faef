//! Streamable HTTP: one endpoint, `/mcp`, for both eras, with sessions for the legacy one.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use toolyard_bench::wire;

use crate::message;
use crate::server::{Answer, Server};

/// How often a keep-alive comment is sent on an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Body = Either<Full<Bytes>, Channel<Bytes>>;

struct Endpoint {
    server: Arc<Server>,
    sessions: Sessions,
    answers_as_stream: bool,
    tasks: TaskTracker,
}

pub(crate) async fn serve(
    server: Arc<Server>,
    listen: SocketAddr,
    answers_as_stream: bool,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    let tasks = TaskTracker::new();
    let endpoint = Arc::new(Endpoint { server, sessions: Sessions::default(), answers_as_stream, tasks });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let shared = endpoint.clone();
        let service = service_fn(move |request| {
            let endpoint = shared.clone();
            async move { Ok::<_, Infallible>(endpoint.respond(request).await) }
        });
        endpoint.tasks.spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}

impl Endpoint {
    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        if head.uri.path() != "/mcp" {
            return empty(StatusCode::NOT_FOUND);
        }
        match head.method {
            Method::POST => match body.collect().await {
                Ok(body) => self.post(&head.headers, &body.to_bytes()).await,
                Err(_) => empty(StatusCode::BAD_REQUEST),
            },
            Method::GET if self.server.speaks_legacy() => self.open_stream(None),
            Method::DELETE if self.server.speaks_legacy() => {
                empty(if self.sessions.close(&head.headers) { StatusCode::OK } else { StatusCode::NOT_FOUND })
            }
            _ => empty(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    async fn post(&self, headers: &HeaderMap, raw: &[u8]) -> Response<Body> {
        match self.server.answer(raw, Some(headers), || self.sessions.check(headers)) {
            Answer::Nothing => empty(StatusCode::ACCEPTED),
            Answer::Now { status, body } => self.whole(status, body),
            Answer::Welcome { body } => {
                let mut response = self.whole(200, body);
                response.headers_mut().insert(wire::SESSION_ID, self.sessions.open());
                response
            }
            Answer::Later { wait, body } => {
                tokio::time::sleep(wait).await;
                self.whole(200, body)
            }
            Answer::Progress { count, pause, token, body } => {
                let (mut sender, channel) = Channel::new(64);
                self.tasks.spawn(async move {
                    for step in 1..=count {
                        sender.send_data(event(&message::progress(&token, step, count))).await?;
                        if !pause.is_zero() {
                            tokio::time::sleep(pause).await;
                        }
                    }
                    sender.send_data(event(&body)).await
                });
                stream(Either::Right(channel))
            }
            Answer::Listen { first } => self.open_stream(Some(first)),
        }
    }

    fn whole(&self, status: u16, body: String) -> Response<Body> {
        if self.answers_as_stream && status == 200 {
            return stream(Either::Left(Full::new(event(&body))));
        }
        let mut response = Response::new(Either::Left(Full::new(body.into())));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    /// A stream that stays open until the client leaves.
    fn open_stream(&self, first: Option<String>) -> Response<Body> {
        let (sender, channel) = Channel::new(4);
        self.tasks.spawn(keep_open(sender, first));
        stream(Either::Right(channel))
    }
}

async fn keep_open(mut sender: Sender<Bytes>, first: Option<String>) {
    let first = first.map_or(Bytes::from_static(b":\n\n"), |message| event(&message));
    let mut alive = sender.send_data(first).await.is_ok();
    while alive {
        tokio::time::sleep(KEEP_ALIVE).await;
        alive = sender.send_data(Bytes::from_static(b":\n\n")).await.is_ok();
    }
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = status;
    response
}

fn stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn event(message: &str) -> Bytes {
    ["event: message\ndata: ", message, "\n\n"].concat().into()
}

/// The open sessions of legacy clients.
#[derive(Default)]
struct Sessions {
    open: Mutex<HashSet<HeaderValue>>,
    opened: AtomicU64,
}

impl Sessions {
    fn open(&self) -> HeaderValue {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        // Guessable: this server only ever serves measurements on loopback.
        let id = HeaderValue::from(number);
        self.lock().insert(id.clone());
        id
    }

    /// The HTTP status to refuse with, if there is no such session.
    fn check(&self, headers: &HeaderMap) -> Result<(), u16> {
        let id = headers.get(wire::SESSION_ID).ok_or(400_u16)?;
        if self.lock().contains(id) { Ok(()) } else { Err(404) }
    }

    fn close(&self, headers: &HeaderMap) -> bool {
        headers.get(wire::SESSION_ID).is_some_and(|id| self.lock().remove(id))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashSet<HeaderValue>> {
        self.open.lock()
    }
}
