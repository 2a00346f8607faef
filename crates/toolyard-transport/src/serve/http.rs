//! The HTTP door: accepts connections, checks what must be checked before a message is read, and hands the
//! message to its era.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::at_once::AtOnce;
use super::endpoint::{Counts, Endpoint, OpenConnection};
use super::guard::Guard;
use super::reply::{self, HttpResponse};
use super::stall::Impatient;
use super::{classic, post};
use crate::admit::Admitted;
use crate::{Scope, View};

/// How long a request head may take, and an idle connection stays open.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// How long connections may finish their answers when the endpoint ends.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// How many connections beyond the limit are told so at the same time; the rest are closed without a word.
const REFUSALS: usize = 64;

/// One listener: the endpoint and what this listener checks.
struct Door {
    endpoint: Arc<Endpoint>,
    guard: Guard,
}

/// Accepts connections until `scope` or the endpoint ends.
pub async fn serve_http(listener: TcpListener, endpoint: Arc<Endpoint>, scope: Scope) {
    let own_address = listener.local_addr().ok().filter(|address| address.ip().is_loopback());
    let options = &endpoint.options;
    let guard = Guard {
        check_host: own_address.is_some() || !options.hosts.is_empty(),
        hosts: options.hosts.clone(),
        own_address: own_address.map(|address| address.to_string()).unwrap_or_default(),
        origins: options.origins.clone(),
    };
    let room = Arc::new(Semaphore::new(options.connections));
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    let door = Arc::new(Door { endpoint, guard });
    let mut backoff = Duration::ZERO;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = scope.ended() => return,
            () = door.endpoint.ending.ended() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                backoff = Duration::ZERO;
                door.admit_connection(stream, &room, &refusals, &scope);
            }
            Err(error) => {
                // Out of file descriptors, most likely: waiting is all that helps.
                backoff = (backoff * 2).clamp(Duration::from_millis(10), Duration::from_secs(1));
                tracing::warn!(%error, ?backoff, "cannot accept a connection");
                tokio::time::sleep(backoff).await;
            }
        }
    }
}

impl Door {
    fn admit_connection(
        self: &Arc<Self>,
        stream: TcpStream,
        room: &Arc<Semaphore>,
        refusals: &Arc<Semaphore>,
        scope: &Scope,
    ) {
        if let Ok(permit) = room.clone().try_acquire_owned() {
            scope.spawn(self.clone().serve_connection(stream, permit));
            return;
        }
        Counts::add(&self.endpoint.counts.refused);
        if let Ok(permit) = refusals.clone().try_acquire_owned() {
            scope.spawn(refuse_connection(stream, permit));
        }
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream, _permit: OwnedSemaphorePermit) {
        let _open = OpenConnection::new(&self.endpoint);
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let ending = self.endpoint.ending.clone();
        let stream = Impatient::new(stream, self.endpoint.options.patience);
        let service = service_fn(move |request| {
            let door = self.clone();
            async move { Ok::<_, Infallible>(door.respond(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = AtOnce::new(connection);
        let finished = tokio::select! {
            finished = &mut connection => finished,
            () = ending.ended() => {
                connection.inner().graceful_shutdown();
                tokio::time::timeout(LAST_ANSWERS, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = finished {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> HttpResponse {
        match request.uri().path() {
            "/healthz" => return reply::text(StatusCode::OK, "ok\n"),
            "/readyz" if self.endpoint.ending.is_ended() => {
                return reply::text(StatusCode::SERVICE_UNAVAILABLE, "ending\n");
            }
            "/readyz" => return reply::text(StatusCode::OK, "ready\n"),
            _ => {}
        }
        if let Some(reason) = self.guard.refusal(request.uri(), request.headers()) {
            return reply::text(StatusCode::FORBIDDEN, format!("{reason}\n"));
        }
        let Some(rest) = mcp_path(request.uri().path()) else {
            return match &self.endpoint.fallback {
                Some(fallback) => fallback(request).await,
                None => reply::text(StatusCode::NOT_FOUND, "nothing here; MCP is served at /mcp\n"),
            };
        };
        let admitted = match self.endpoint.options.gate.admit(request.headers().get(AUTHORIZATION)) {
            Ok(admitted) => admitted,
            Err(challenge) => {
                let mut response = reply::text(StatusCode::UNAUTHORIZED, "a bearer token is required\n");
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge.header());
                return response;
            }
        };
        match View::parse(rest).filter(|view| self.endpoint.handler.offers(view)) {
            Some(view) => self.answer(view, admitted, request).await,
            None => reply::text(StatusCode::NOT_FOUND, format!("there is no view /mcp/{rest}\n")),
        }
    }

    async fn answer(&self, view: View, admitted: Admitted, request: Request<Incoming>) -> HttpResponse {
        match *request.method() {
            Method::POST => post::post(&self.endpoint, view, admitted, request).await,
            Method::GET => classic::http::get(&self.endpoint, &view, &admitted, request.headers()),
            Method::DELETE => classic::http::delete(&self.endpoint, &view, &admitted, request.headers()),
            _ => method_not_allowed(),
        }
    }
}

pub(super) fn method_not_allowed() -> HttpResponse {
    let mut response = reply::text(StatusCode::METHOD_NOT_ALLOWED, "send messages with POST\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// What follows `/mcp/`, if the path is ours.
fn mcp_path(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/mcp")?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// Says that there is no room, and waits a moment so that the client can read it.
async fn refuse_connection(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let say = async {
        let text = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 21\r\n\r\ntoo many connections\n";
        stream.write_all(text).await?;
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    if let Ok(Err(error)) = tokio::time::timeout(Duration::from_secs(1), say).await {
        tracing::debug!(%error, "a refused connection ended early");
    }
}
