//! The answers of the HTTP listener that are not MCP: the dashboard, public pages, the control API, HTTP+SSE, and
//! refusals.

use std::sync::Arc;
use std::time::Duration;

use ::hyper::body::Incoming;
use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::Destination;
use crate::admit::Challenge;
use crate::endpoint::Endpoint;
use crate::head::Fields;
use crate::reply::{self, HttpResponse};
use crate::{control, legacy, pages, public};

/// Answers a request whose destination is not MCP.
pub(super) async fn answer_other(
    endpoint: &Arc<Endpoint>,
    destination: Destination,
    request: Request<Incoming>,
) -> HttpResponse {
    match destination {
        Destination::Refused(response) | Destination::Answered(response) => *response,
        Destination::Unverified(_) => {
            reply::text(StatusCode::SERVICE_UNAVAILABLE, "the token cannot be checked now; try again\n")
        }
        Destination::Page(path) => match &endpoint.pages {
            Some(pages) => pages::answer(&**pages, request.method(), &path, Fields::Map(request.headers())),
            None => reply::text(StatusCode::NOT_FOUND, "this gateway has no dashboard\n"),
        },
        Destination::Elsewhere | Destination::Mcp(..) => {
            reply::text(StatusCode::NOT_FOUND, "not found; MCP is served at /mcp\n")
        }
        Destination::Public => match &endpoint.options.public_pages {
            Some(pages) => Box::pin(public::answer(endpoint, pages.as_ref(), &request)).await,
            None => reply::text(StatusCode::NOT_FOUND, "there is no such page\n"),
        },
        Destination::Control(control, admitted) => {
            Box::pin(control::answer(endpoint, &control, admitted, request)).await
        }
        Destination::Events(view, admitted) => {
            Box::pin(legacy::sse::answer(endpoint, view, admitted, request)).await
        }
    }
}

pub(super) fn denied(challenge: Challenge) -> HttpResponse {
    let mut response = reply::text(challenge.status, format!("{}\n", challenge.text));
    match challenge.header {
        Some(header) => response.headers_mut().insert(WWW_AUTHENTICATE, header),
        None => response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5")),
    };
    response
}

pub(crate) fn method_not_allowed() -> HttpResponse {
    let mut response = reply::text(StatusCode::METHOD_NOT_ALLOWED, "send messages with POST\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Answers that there is no room, and waits a moment so that the client can read it.
pub(super) async fn refuse_connection(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
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
