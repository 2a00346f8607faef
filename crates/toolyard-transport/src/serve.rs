//! The server endpoint that clients of both eras meet, written once over [`Handler`](crate::Handler): HTTP
//! and newline streams, with everything that only older clients need (handshake, sessions, resumable
//! streams, questions on the line) kept in `classic`.

pub mod endpoint;
pub mod http;
pub mod lines;
pub mod stream;

mod accept;
mod careful;
pub(crate) mod at_once;
pub(crate) mod body;
pub(crate) mod calls;
pub(crate) mod classic;
pub(crate) mod fields;
pub(crate) mod guard;
pub(crate) mod headers;
pub(crate) mod modern;
pub(crate) mod opening;
pub(crate) mod outbox;
pub(crate) mod park;
pub(crate) mod post;
pub(crate) mod rendered;
pub(crate) mod reply;
pub(crate) mod stall;
pub(crate) mod storm;

pub use body::ServeBody;
pub use endpoint::{Counts, Endpoint, Fallback, Options};
pub use http::serve_http;
pub use lines::{serve_local, serve_tcp};
pub use opening::{REFUSED, REFUSED_TOKEN, REFUSED_VIEW};
pub use stream::{serve_pipe, serve_stream};
