//! Everything that only clients up to 2025-11-25 have: a handshake, a session, questions from the server on
//! the stream of a call, subscriptions per URI, resumable streams and batches.

pub(crate) mod asks;
pub(crate) mod handshake;
pub(crate) mod http;
pub(crate) mod listen;
pub(crate) mod remember;
pub(crate) mod replay;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod sse;
