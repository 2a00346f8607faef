//! What an upstream's HTTP status means when it is not an answer.

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, Response, StatusCode};
use toolyard_proto::{CallError, Message, Raw, Retry};

use super::body::read_whole;
use super::endpoint::Endpoint;
use super::wire::Arriving;

/// A refusal's body beyond this is not read.
const MAX_BODY: usize = 1024 * 1024;
/// How much of a body that is not JSON-RPC is shown.
const EXCERPT: usize = 200;

/// A response that is no answer, read to its end.
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// The JSON-RPC error object in it, if there is one.
    pub(crate) error: Option<Raw>,
    headers: HeaderMap,
    body: Bytes,
}

impl Refusal {
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

    /// What it means for a call.
    pub(crate) fn to_call_error(&self, endpoint: &Endpoint) -> CallError {
        let message = self.describe(endpoint);
        let error = match (&self.error, self.status.as_u16()) {
            (_, 401 | 403) => CallError::turned_away(Retry::Never, message),
            (Some(error), _) => CallError::reported(error.clone()),
            (None, 429 | 503) => CallError::turned_away(Retry::Always, message),
            (None, 200..=499) => CallError::turned_away(Retry::Never, message),
            (None, _) => CallError::turned_away(Retry::IfIdempotent, message),
        };
        error.at(&endpoint.name)
    }

    /// The status in words, with what to do about it where that is known.
    pub(crate) fn describe(&self, endpoint: &Endpoint) -> String {
        let (name, url, status) = (&endpoint.name, endpoint.shown_url(), self.status);
        if self.wants_credentials() {
            return format!(
                "upstream `{name}` at {url} wants credentials (HTTP {status}): set `headers` of \
                 `[upstreams.{name}]`, for example `headers = {{ Authorization = \"Bearer …\" }}`"
            );
        }
        if let Some(place) = self.headers.get(LOCATION).filter(|_| status.is_redirection()) {
            let place = String::from_utf8_lossy(place.as_bytes());
            return format!("upstream `{name}` has moved from {url} to {place}: change `url`");
        }
        let said = match &self.error {
            Some(error) => error.member("message").and_then(|m| m.as_string()).unwrap_or_default(),
            None => excerpt(&self.body),
        };
        let colon = if said.is_empty() { "" } else { ": " };
        format!("upstream `{name}` at {url} answered with HTTP {status}{colon}{said}")
    }
}

/// A page made for browsers says nothing to people who read a line.
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
    fn what_an_answer_says_is_repeated_unless_it_is_a_page_for_browsers() {
        assert_eq!(excerpt(b"there is\n no view\n"), "there is no view");
        assert_eq!(excerpt(b"\n<!DOCTYPE html><html><body>Not Found</body></html>"), "");
        assert_eq!(excerpt(b""), "");
    }
}
