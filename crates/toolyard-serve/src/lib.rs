//! The server endpoint for clients of both eras, written once over [`Handler`](toolyard_model::Handler): HTTP and
//! newline streams. Everything that only legacy clients need (handshake, sessions, resumable streams, requests
//! to the client on its stream) is in `legacy`.

pub mod admit;
pub mod endpoint;
pub mod http;
pub mod lines;
pub mod stream;

mod accept;
mod catch_panics;
mod body_budget;
mod calls;
mod control;
mod cors;
mod elsewhere;
mod legacy;
mod head;
mod modern;
mod opening;
mod outbox;
mod pages;
mod park;
mod plain_calls;
mod poll_inline;
mod post;
mod public;
mod reply;
mod request;
mod ui_access;
mod write_timeout;
mod notify_limit;

pub use endpoint::{Counts, Endpoint, Options};
pub use http::{serve_http, serve_node};
pub use lines::{serve_local, serve_tcp};
pub use opening::{REFUSED, REFUSED_TOKEN, REFUSED_VIEW};
pub use plain_calls::{PlainCall, serve_plain_calls};
pub use public::{PageRequest, PageResponse, PublicPages};
use reply::ServeBody;
pub use stream::{serve_pipe, serve_stream};
pub use ui_access::CODE_LIFE;
