//! The meaning of an HTTP status that is not an answer.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, Response, StatusCode};
use toolyard_proto::{CallError, Message, Raw, Reason, Retry};

use super::body::read_whole;
use super::connections::Arriving;
use super::upstream::{CHECK_PATH, HttpUpstream};

/// A refusal's body beyond this is not read.
const MAX_BODY: usize = 1024 * 1024;
/// How much of a body that is not JSON-RPC is shown.
const EXCERPT: usize = 200;

/// A response that is not an answer, read to its end.
pub(crate) struct HttpRefusal {
    pub(crate) status: StatusCode,
    /// The JSON-RPC error object in it, if there is one.
    pub(crate) error: Option<Raw>,
    headers: HeaderMap,
    body: Bytes,
}

impl HttpRefusal {
    pub(crate) async fn read(response: Response<Arriving>) -> Self {
        let (parts, body) = response.into_parts();
        let body = read_whole(body, MAX_BODY).await.unwrap_or_default();
        let error = match Message::parse(&body) {
            Ok(Message::Response(response)) => response.outcome.err(),
            _ => None,
        };
        Self { status: parts.status, error, headers: parts.headers, body }
    }

    pub(crate) fn wants_credentials(&self) -> bool {
        matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// The error of a call that was refused like this. Only 429 states for certain that the call was not carried out: a
    /// proxy may answer 503 when the server behind it was lost in the middle of a call.
    pub(crate) fn to_call_error(&self, upstream: &HttpUpstream) -> CallError {
        let reason = self.reason(upstream);
        let error = match (&self.error, self.status.as_u16()) {
            // The server has not required credentials before, so none were sent.
            (_, 401) if upstream.begin_guarding() => CallError::sign_in(reason),
            (_, 401 | 403) => CallError::turned_away(Retry::Never, reason),
            (Some(error), _) => CallError::reported(error.clone()),
            (None, 429) => CallError::turned_away(Retry::Always, reason),
            // The call may have been carried out.
            (None, 200..=299 | 408 | 499) => CallError::turned_away(Retry::IfIdempotent, reason),
            (None, 300..=499) => CallError::turned_away(Retry::Never, reason),
            (None, _) => CallError::turned_away(Retry::IfIdempotent, reason),
        };
        let error = match self.retry_after() {
            Some(wait) => error.retry_after(wait),
            None => error,
        };
        error.at(&upstream.name)
    }

    /// How long the server asks to wait.
    fn retry_after(&self) -> Option<Duration> {
        if !matches!(self.status.as_u16(), 429 | 503) {
            return None;
        }
        toolyard_dial::retry_after(&self.headers)
    }

    /// The meaning of the status, with a hint if one is known.
    pub(crate) fn reason(&self, upstream: &HttpUpstream) -> Reason {
        let (name, status) = (&upstream.name, self.status);
        match status {
            StatusCode::UNAUTHORIZED => return self.unauthorized(upstream),
            StatusCode::FORBIDDEN => {
                return upstream.reason("refuses access (HTTP 403)").with_hint(format!(
                    "check the rights of the token in `headers` of `[upstreams.{name}]`"
                ));
            }
            _ => {}
        }
        let url = upstream.shown_url();
        if let Some(place) = self.headers.get(LOCATION).filter(|_| status.is_redirection()) {
            let place = excerpt(place.as_bytes());
            return upstream.reason(format!("has moved from {url} to {place}")).with_hint("change `url`");
        }
        let reason = upstream.reason(format!("answered with HTTP {status} at {url}"));
        let text = match &self.error {
            Some(error) => error.member("message").and_then(|m| m.as_string()).unwrap_or_default(),
            None => excerpt(&self.body),
        };
        let reason = if text.is_empty() { reason } else { reason.because(text) };
        match status.as_u16() {
            429 => reason.with_hint("wait before trying again; the server limits its requests"),
            404 | 405 => reason.with_hint(CHECK_PATH),
            500..=599 => reason.with_hint("look at the log of the server"),
            _ => reason.with_hint("check that `url` leads to an MCP endpoint"),
        }
    }

    fn unauthorized(&self, upstream: &HttpUpstream) -> Reason {
        let name = &upstream.name;
        if self.wants_sign_in() {
            let reason = upstream.reason("needs an OAuth sign-in (HTTP 401)");
            return reason.with_hint(if upstream.can_sign_in() {
                format!("run `toolyard login {name}`")
            } else {
                format!(
                    "remove `Authorization` from `headers` of `[upstreams.{name}]` and run `toolyard login {name}`"
                )
            });
        }
        if upstream.has_credentials() {
            let what = "rejected the credentials in `headers.Authorization` (HTTP 401)";
            return upstream.reason(what).with_hint("check the token");
        }
        upstream.reason("requires credentials (HTTP 401)").with_hint(format!(
            "set `headers` of `[upstreams.{name}]`, for example `headers = {{ Authorization = \"Bearer …\" }}`"
        ))
    }

    /// Whether it names an OAuth authorization server.
    fn wants_sign_in(&self) -> bool {
        let names_it = |value: &HeaderValue| {
            value.as_bytes().windows(17).any(|part| part.eq_ignore_ascii_case(b"resource_metadata"))
        };
        self.headers.get_all(WWW_AUTHENTICATE).iter().any(names_it)
    }
}

/// The start of a body as one line; nothing for a web page, which does not help in a message.
fn excerpt(body: &[u8]) -> String {
    if body.trim_ascii_start().starts_with(b"<") {
        return String::new();
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_are_left_out_of_excerpts() {
        assert_eq!(excerpt(b"there is\n no view\n"), "there is no view");
        assert_eq!(excerpt(b"\n<!DOCTYPE html><html><body>Not Found</body></html>"), "");
        assert_eq!(excerpt(b""), "");
    }

    #[tokio::test]
    async fn only_429_means_that_a_call_was_certainly_not_carried_out() {
        let spec = crate::http::HttpSpec::new("http://127.0.0.1:1/mcp".parse().unwrap(), HeaderMap::new());
        let scope = toolyard_model::Scope::new();
        let upstream = HttpUpstream::new(&"far".into(), &spec, Duration::from_secs(1), &scope).unwrap();
        let retry = |status: u16| {
            let status = StatusCode::from_u16(status).unwrap();
            let refusal = HttpRefusal { status, error: None, headers: HeaderMap::new(), body: Bytes::new() };
            refusal.to_call_error(&upstream).retry
        };
        assert_eq!(retry(429), Retry::Always);
        for status in [200, 202, 204, 408, 499, 500, 502, 503, 504] {
            assert_eq!(retry(status), Retry::IfIdempotent, "{status}");
        }
        for status in [301, 400, 403, 404, 405, 413] {
            assert_eq!(retry(status), Retry::Never, "{status}");
        }
    }
}
