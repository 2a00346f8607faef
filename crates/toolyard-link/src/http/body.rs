//! Bodies of upstreams' answers, read whole within a bound.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;

use super::connections::Arriving;
use super::upstream::root_cause;

/// The kind of answer that a response holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Json,
    Events,
    Other,
}

pub(crate) fn content(headers: &HeaderMap) -> Content {
    match headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes) {
        Some(value) if is_of_kind(value, b"application/json") => Content::Json,
        Some(value) if is_of_kind(value, b"text/event-stream") => Content::Events,
        _ => Content::Other,
    }
}

fn is_of_kind(content_type: &[u8], kind: &[u8]) -> bool {
    content_type.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind))
}

/// Why a body could not be read whole.
#[derive(Debug)]
pub(crate) enum ReadError {
    Broken(String),
    TooLarge,
}

/// Reads a body of at most `limit` bytes. A body in one piece is not copied.
pub(crate) async fn read_whole(mut body: Arriving, limit: usize) -> Result<Bytes, ReadError> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ReadError::Broken(root_cause(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(ReadError::TooLarge);
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}
