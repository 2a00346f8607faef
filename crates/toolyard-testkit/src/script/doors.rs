//! The scripted server on a stream of lines and on HTTP.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use toolyard_model::Scope;
use toolyard_proto::Revision;

use super::{Manner, Server};

type Body = UnsyncBoxBody<Bytes, Infallible>;

const ROOM: usize = 256;
const SESSION: &str = "mcp-session-id";

/// Serves one client, one message per line, until it goes.
pub async fn serve_lines<R, W>(server: Arc<Server>, read: R, mut write: W, scope: &Scope)
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (out, mut messages) = mpsc::channel::<Value>(ROOM);
    server.add_outside(out.clone());
    let session = server.name_a_stream();
    scope.spawn(async move {
        while let Some(message) = messages.recv().await {
            if write.write_all(format!("{message}\n").as_bytes()).await.is_err()
                || write.flush().await.is_err()
            {
                return;
            }
        }
    });
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(message) = serde_json::from_str(&line) {
            server.take(&session, message, out.clone());
        }
    }
}

/// Serves HTTP, every path alike.
pub async fn serve_http(server: Arc<Server>, listener: TcpListener, scope: Scope) {
    while let Ok((stream, _)) = listener.accept().await {
        let server = server.clone();
        let service = service_fn(move |request| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(answer(&server, request).await) }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        scope.spawn(async move {
            let _ = connection.await;
        });
    }
}

async fn answer(server: &Arc<Server>, request: Request<Incoming>) -> Response<Body> {
    if request.method() == Method::DELETE && !server.is_modern() {
        let gone = session_of(request.headers()).is_some_and(|id| server.state().sessions.remove(id));
        return empty(if gone { StatusCode::OK } else { StatusCode::NOT_FOUND });
    }
    if request.method() == Method::GET && !server.is_modern() && server.manner != Manner::WithoutStream {
        let (out, messages) = mpsc::channel(ROOM);
        server.add_outside(out);
        return events(messages, None);
    }
    if request.method() != Method::POST {
        return empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    let headers = request.headers().clone();
    let Ok(body) = request.into_body().collect().await else { return empty(StatusCode::BAD_REQUEST) };
    let Ok(message) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return empty(StatusCode::BAD_REQUEST);
    };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let method = message["method"].as_str();
    if server.is_modern() && (method.is_none() || header("mcp-method") != method) {
        return empty(StatusCode::BAD_REQUEST);
    }
    let is_first = method == Some("initialize") || method == Some("server/discover");
    if !server.is_modern() && !is_first {
        let version = server.knows(Revision::V2025_06_18).then(|| server.revision.as_str());
        if header("mcp-protocol-version") != version {
            return empty(StatusCode::BAD_REQUEST);
        }
        if !header(SESSION).is_some_and(|id| server.state().sessions.contains(id)) {
            return empty(StatusCode::NOT_FOUND);
        }
    }
    let session = (method == Some("initialize")).then(|| server.open_session());
    if message["params"]["name"] == "status" {
        return refusal(&message);
    }
    let (out, messages) = mpsc::channel(ROOM);
    let wants_answer = method.is_some() && message.get("id").is_some();
    let of = header(SESSION).unwrap_or_default();
    server.take(of, message, out);
    if wants_answer { events(messages, session) } else { empty(StatusCode::ACCEPTED) }
}

/// What the tool `status` answers: the status and, if it names a code, the error that its arguments ask for.
fn refusal(message: &Value) -> Response<Body> {
    let arguments = &message["params"]["arguments"];
    let status = arguments["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let mut response = empty(status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or_default());
    if arguments["code"].is_i64() {
        let error = serde_json::json!({ "code": arguments["code"], "message": "as asked" });
        let body = serde_json::json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
        *response.body_mut() = Full::new(Bytes::from(body.to_string())).boxed_unsync();
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    }
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
    *response.status_mut() = status;
    response
}

fn session_of(headers: &http::HeaderMap) -> Option<&str> {
    headers.get(SESSION).and_then(|id| id.to_str().ok())
}

fn events(messages: mpsc::Receiver<Value>, session: Option<String>) -> Response<Body> {
    let events = unfold(messages, |mut messages| async move {
        let message = messages.recv().await?;
        Some((Ok(Frame::data(Bytes::from(format!("data: {message}\n\n")))), messages))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream"));
    if let Some(session) = session.and_then(|session| session.try_into().ok()) {
        headers.insert(SESSION, session);
    }
    response
}
