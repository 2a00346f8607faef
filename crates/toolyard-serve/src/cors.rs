//! CORS, which lets a page of an admitted origin call from a browser: the answer to its preflight request, and headers
//! on every response. The Origin check comes first, so all of this is for origins that are accepted.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::reply::{self, HttpResponse};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const EXPOSED: HeaderValue =
    HeaderValue::from_static("mcp-session-id, mcp-protocol-version, www-authenticate, retry-after");
/// How many seconds a browser may cache the answer.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Whether a browser asks if it may send a request. It cannot send a token with this.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight request. All headers that the page wants to send are allowed: their values are checked
/// when they come.
pub(super) fn preflight(request: &HeaderMap) -> HttpResponse {
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if let Some(wanted) = request.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    if request.contains_key(REQUEST_PRIVATE_NETWORK) {
        headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    response
}

/// Allows the page that sent the request to read the response.
pub(super) fn allow(origin: HeaderValue, response: &mut HttpResponse) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(VARY, HeaderValue::from_static("origin"));
}
