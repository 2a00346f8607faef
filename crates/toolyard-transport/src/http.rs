//! Upstreams over HTTP. Streamable HTTP is one POST per call on pooled connections: `client` speaks to modern
//! upstreams, `classic` to those that keep sessions. `oldest` makes lines of the transport before that. All
//! stand on one `endpoint`.

pub(crate) mod body;
pub(crate) mod classic;
pub(crate) mod client;
pub(crate) mod connector;
pub(crate) mod endpoint;
pub(crate) mod oldest;
pub(crate) mod refusal;
pub(crate) mod sse;
pub(crate) mod wire;
pub(crate) mod wires;

pub use classic::ClassicLink;
pub use client::HttpLink;
use http::{HeaderMap, Uri};

/// Where an HTTP upstream is, and what to send along.
#[derive(Clone, Debug)]
pub struct HttpSpec {
    pub url: Uri,
    pub headers: HeaderMap,
}
