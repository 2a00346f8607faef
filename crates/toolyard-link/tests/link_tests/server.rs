//! An HTTP upstream that the test plays itself: it takes each request as it comes and answers it by hand.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::support::soon;

type Body = BoxBody<Bytes, std::io::Error>;
type Reply = oneshot::Sender<Response<Body>>;

/// One request, waiting for its answer. Dropped unanswered, it breaks the connection.
pub(crate) struct Exchange {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    reply: Reply,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: mpsc::UnboundedReceiver<Exchange>,
    passed_over: VecDeque<Exchange>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (send, requests) = mpsc::unbounded_channel();
        tokio::task::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let send = send.clone();
                tokio::task::spawn(async move {
                    let service = service_fn(move |request| take(request, send.clone()));
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, requests, passed_over: VecDeque::new() }
    }

    /// The next request that is meant; others wait for later.
    pub(crate) async fn next_where(&mut self, meant: impl Fn(&Exchange) -> bool) -> Exchange {
        if let Some(at) = self.passed_over.iter().position(&meant) {
            return self.passed_over.remove(at).unwrap();
        }
        loop {
            let exchange = soon(self.requests.recv()).await.expect("the server runs");
            if meant(&exchange) {
                return exchange;
            }
            self.passed_over.push_back(exchange);
        }
    }

    /// The next POST of that JSON-RPC method.
    pub(crate) async fn posted(&mut self, method: &str) -> Exchange {
        self.next_where(|exchange| exchange.body()["method"] == method).await
    }

    /// The next POST of a response.
    pub(crate) async fn responded(&mut self) -> Exchange {
        self.next_where(|e| e.method == Method::POST && e.body().get("method").is_none()).await
    }

    pub(crate) async fn got(&mut self, method: Method) -> Exchange {
        self.next_where(|exchange| exchange.method == method).await
    }
}

async fn take(
    request: Request<Incoming>,
    send: mpsc::UnboundedSender<Exchange>,
) -> Result<Response<Body>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let (reply, answer) = oneshot::channel();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let exchange = Exchange { method: parts.method, headers: parts.headers, text, reply };
    let _ = send.send(exchange);
    answer.await.map_err(std::io::Error::other)
}

impl Exchange {
    pub(crate) fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn send(self, status: u16, headers: &[(&str, &str)], text: &str) {
        let body = Full::new(Bytes::from(text.to_owned())).map_err(|never: Infallible| match never {});
        self.respond(status, headers, BoxBody::new(body));
    }

    fn respond(self, status: u16, headers: &[(&str, &str)], body: Body) {
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in headers {
            let name = http::HeaderName::try_from(*name).unwrap();
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        let _ = self.reply.send(response);
    }

    /// Waits until the other side no longer waits.
    pub(crate) async fn abandoned(mut self) {
        soon(self.reply.closed()).await;
    }

    pub(crate) fn status(self, status: u16) {
        self.send(status, &[], "");
    }

    pub(crate) fn result(self, result: impl Into<Value>) {
        self.result_with(&[], &result.into());
    }

    pub(crate) fn result_with(self, headers: &[(&str, &str)], result: &Value) {
        let text = json!({"jsonrpc": "2.0", "id": self.body()["id"], "result": result}).to_string();
        let json = ("content-type", "application/json");
        self.send(200, &[headers, &[json]].concat(), &text);
    }

    pub(crate) fn error(self, status: u16, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        let text = json!({"jsonrpc": "2.0", "id": self.body()["id"], "error": error}).to_string();
        self.send(status, &[("content-type", "application/json")], &text);
    }

    /// Answers with a stream, to be filled.
    pub(crate) fn events(self) -> Events {
        let (send, receive) = mpsc::channel(16);
        let frames = unfold(receive, async |mut receive: mpsc::Receiver<Result<Bytes, std::io::Error>>| {
            let chunk = receive.recv().await?;
            Some((chunk.map(Frame::data), receive))
        });
        self.respond(200, &[("content-type", "text/event-stream")], BoxBody::new(StreamBody::new(frames)));
        Events(send)
    }
}

/// A stream being written. Dropped, it ends as it should.
pub(crate) struct Events(mpsc::Sender<Result<Bytes, std::io::Error>>);

impl Events {
    pub(crate) async fn text(&self, text: &str) {
        soon(self.0.send(Ok(Bytes::from(text.to_owned())))).await.unwrap();
    }

    pub(crate) async fn message(&self, message: Value) {
        self.text(&format!("event: message\ndata: {message}\n\n")).await;
    }

    pub(crate) async fn numbered(&self, id: &str, message: Value) {
        self.text(&format!("id: {id}\ndata: {message}\n\n")).await;
    }

    pub(crate) async fn break_off(self) {
        let _ = self.0.send(Err(std::io::Error::other("broken"))).await;
    }

    /// Waits until the other side no longer reads.
    pub(crate) async fn abandoned(&self) {
        soon(self.0.closed()).await;
    }
}
