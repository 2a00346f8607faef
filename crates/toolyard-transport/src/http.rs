//! Upstreams over Streamable HTTP.

use http::{HeaderMap, Uri};

/// Where an HTTP upstream is, and what to send along.
#[derive(Clone, Debug)]
pub struct HttpSpec {
    pub url: Uri,
    pub headers: HeaderMap,
}
