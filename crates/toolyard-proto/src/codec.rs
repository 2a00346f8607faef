//! Codecs for streams: newline-delimited JSON and server-sent events, both bounded.

pub mod line;
pub mod sse;

/// A line or an event grew past the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message is larger than {limit} bytes")]
pub struct TooLarge {
    pub limit: usize,
}

/// The default bound of one line or event.
pub const MAX_MESSAGE: usize = 64 * 1024 * 1024;
