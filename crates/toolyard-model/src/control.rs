//! The control API as its handler sees it. The endpoint mounts it under `/api/v1`, behind the same admission as
//! `/mcp`, and turns HTTP into these types and back.

use std::fmt;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{BoxFuture, Principal};

/// Answers requests to the control API.
pub trait Control: Send + Sync + 'static {
    fn control(&self, request: ControlRequest) -> BoxFuture<ControlResponse>;
}

/// One request to the control API. The client has been admitted; what it may do is for the handler to decide.
#[derive(Clone, Debug)]
pub struct ControlRequest {
    pub method: Method,
    /// The path after `/api/v1`: empty, or beginning with a slash.
    pub path: String,
    /// The query, still encoded.
    pub query: Option<String>,
    /// The whole body; empty if there is none.
    pub body: Bytes,
    /// The `Last-Event-ID` header: the last event that a client of the event stream has received.
    pub last_event_id: Option<String>,
    pub principal: Principal,
    /// Whether the connection has the right to change things and to read payloads, stderr and config: it came
    /// over the local socket of the same user, or it presented the operator token.
    pub is_operator: bool,
}

impl ControlRequest {
    /// The value of a query parameter, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.as_deref()?.split('&');
        let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(key, _)| decode(key) == name).map(|(_, value)| decode(value))
    }

    /// An error to return if the connection is not an operator's.
    pub fn require_operator(&self) -> Result<(), ControlResponse> {
        if self.is_operator {
            return Ok(());
        }
        Err(ControlResponse::error(
            StatusCode::FORBIDDEN,
            "operator_required",
            "this needs an operator: use the local socket, `toolyard ui`, or the token of `[listen] operator_token`",
        ))
    }
}

/// An answer of the control API.
pub enum ControlResponse {
    Whole {
        status: StatusCode,
        json: Bytes,
    },
    /// Content of another type than JSON.
    Text {
        content_type: &'static str,
        text: String,
    },
    /// Content that is made while it is sent. An error cuts it off, so that the client notices.
    Parts {
        content_type: &'static str,
        parts: BoxStream<'static, Result<Bytes, String>>,
    },
    /// A stream of server-sent events. It ends when the stream ends, the client disconnects or the endpoint ends.
    Events(BoxStream<'static, ControlEvent>),
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlEvent {
    /// The `Last-Event-ID` with which a client resumes after this event.
    pub id: Option<String>,
    /// The `event` field.
    pub name: &'static str,
    /// JSON.
    pub data: String,
}

impl ControlResponse {
    pub fn json(value: &Value) -> Self {
        Self::with_status(StatusCode::OK, value)
    }

    pub fn with_status(status: StatusCode, value: &Value) -> Self {
        Self::Whole { status, json: value.to_string().into() }
    }

    pub fn text(content_type: &'static str, text: String) -> Self {
        Self::Text { content_type, text }
    }

    /// `{"error": {"code": …, "message": …}}`. The code is for programs, the message for people.
    pub fn error(status: StatusCode, code: &str, message: &str) -> Self {
        Self::with_status(status, &json!({ "error": { "code": code, "message": message } }))
    }

    pub fn not_found() -> Self {
        Self::error(StatusCode::NOT_FOUND, "not_found", "the control API has no such path")
    }

    pub fn method_not_allowed() -> Self {
        let message = "this path does not support that method";
        Self::error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }
}

impl fmt::Debug for ControlResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole { status, json } => {
                f.debug_struct("Whole").field("status", status).field("json", json).finish()
            }
            Self::Text { content_type, .. } => write!(f, "Text({content_type})"),
            Self::Parts { content_type, .. } => write!(f, "Parts({content_type})"),
            Self::Events(_) => f.write_str("Events"),
        }
    }
}

/// Decodes `%XX` and `+` as forms do. What is not valid stays as it is.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], escaped) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 2;
            }
            (b'+', _) => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_parameters_are_decoded() {
        let request = ControlRequest {
            method: Method::GET,
            path: "/events".into(),
            query: Some("since=4%32&name=a+b%20c&flag&odd=%zz".into()),
            body: Bytes::new(),
            last_event_id: None,
            principal: Principal::local(),
            is_operator: false,
        };
        let check =
            |name: &str, expected: Option<&str>| assert_eq!(request.parameter(name).as_deref(), expected);
        check("since", Some("42"));
        check("name", Some("a b c"));
        check("flag", Some(""));
        check("odd", Some("%zz"));
        check("other", None);
    }
}
