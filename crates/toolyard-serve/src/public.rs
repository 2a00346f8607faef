//! Pages and documents beside MCP that need no credentials: those of a sign-in, and metadata that clients look for.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::Incoming;
use toolyard_model::BoxFuture;

use super::ServeBody;
use super::elsewhere;
use super::endpoint::Endpoint;
use super::reply::{self, HttpResponse};

/// The paths of these pages.
const BASES: [&str; 2] = ["/oauth/", "/.well-known/oauth-protected-resource"];

/// A request for a page. Bodies are not read.
#[derive(Debug)]
pub struct PageRequest {
    pub method: Method,
    pub path: String,
    pub query: String,
}

/// The response with a page.
#[derive(Debug)]
pub struct PageResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Answers requests for pages.
pub trait PublicPages: fmt::Debug + Send + Sync + 'static {
    /// The id of the sign-in that a page belongs to. Another gateway may have it.
    fn sign_in(&self, request: &PageRequest) -> Option<String>;

    /// `None` if there is no such page.
    fn page(&self, request: PageRequest) -> BoxFuture<Option<PageResponse>>;
}

pub(crate) fn is_public(path: &str) -> bool {
    BASES.iter().any(|base| path.starts_with(base))
}

pub(crate) async fn answer(
    endpoint: &Endpoint,
    pages: &dyn PublicPages,
    request: &Request<Incoming>,
) -> HttpResponse {
    let (path, query) =
        (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
    let request = PageRequest { method: request.method().clone(), path, query };
    if let Some(answer) = elsewhere::page(endpoint, pages, &request).await {
        return answer;
    }
    match pages.page(request).await {
        None => reply::text(StatusCode::NOT_FOUND, "there is no such page\n"),
        Some(PageResponse { status, headers, body }) => {
            let mut response = HttpResponse::new(ServeBody::full(body));
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            response
        }
    }
}
