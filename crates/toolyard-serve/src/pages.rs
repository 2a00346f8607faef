//! The dashboard's files at `/ui`. They hold nothing secret, so no credentials are asked for; what they show comes
//! from the control API, which asks.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH};
use http::{HeaderValue, Method, Response, StatusCode};
use toolyard_model::Pages;

use super::ServeBody;
use super::head::Fields;
use super::reply::{self, HttpResponse};

/// The path of the dashboard.
pub(super) const BASE: &str = "/ui";

/// The rights of the pages: load their own files, speak to this gateway, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (HeaderName::from_static("content-security-policy"), HeaderValue::from_static(POLICY)),
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Answers a request for a file; `path` is what follows `/ui`.
pub(super) fn answer(pages: &dyn Pages, method: &Method, path: &str, fields: Fields<'_>) -> HttpResponse {
    if *method != Method::GET && *method != Method::HEAD {
        return reply::text(StatusCode::METHOD_NOT_ALLOWED, "pages are read with GET\n");
    }
    let Some(page) = pages.page(path.trim_start_matches('/')) else {
        return reply::text(StatusCode::NOT_FOUND, "the dashboard has no such page\n");
    };
    let is_known = fields.first(&IF_NONE_MATCH) == Some(page.etag.as_bytes());
    let body =
        if is_known || *method == Method::HEAD { ServeBody::empty() } else { ServeBody::full(page.body) };
    let mut response = Response::new(body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(etag) = HeaderValue::try_from(page.etag) {
        headers.insert(ETAG, etag);
    }
    headers.extend(HEADERS);
    response
}
