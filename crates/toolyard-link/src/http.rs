//! Upstreams over HTTP. Streamable HTTP is one POST per call on pooled connections: `client` is for modern
//! upstreams, `legacy` for those that keep sessions. `http_sse` turns the transport before that into lines. All
//! use one `upstream`.

mod authorize;
pub(crate) mod body;
pub(crate) mod legacy;
pub(crate) mod client;
pub(crate) mod connections;
pub(crate) mod connector;
mod credentials;
pub(crate) mod http_sse;
pub(crate) mod obstacle;
mod once;
mod quiet_waker;
pub(crate) mod refusal;
mod relayed;
mod spare;
pub(crate) mod sse;
pub(crate) mod upstream;

pub use authorize::{Authorize, Unauthorized};
pub use client::HttpLink;
pub use connector::{Dial, Duplex};
pub use legacy::LegacyLink;
pub use once::{post_once, send_once};
pub use spare::Spare;
use std::fmt;
use std::sync::Arc;
pub use toolyard_dial::Identity;

use http::{HeaderMap, Uri};

/// The address of an HTTP upstream, and the headers to send along.
#[derive(Clone)]
pub struct HttpSpec {
    pub url: Uri,
    pub headers: HeaderMap,
    /// Adds credentials that change over time.
    pub authorize: Option<Arc<dyn Authorize>>,
    /// A second credential for the time after the server refused the first because of too many requests.
    pub spare: Option<Arc<Spare>>,
    /// Opens the connections, where the address in `url` is not simply dialled.
    pub dial: Option<Arc<dyn Dial>>,
    /// The client certificate that is shown to the server.
    pub identity: Option<Identity>,
}

impl HttpSpec {
    /// Without credentials other than those in `headers`.
    pub fn new(url: Uri, headers: HeaderMap) -> Self {
        Self { url, headers, authorize: None, spare: None, dial: None, identity: None }
    }
}

/// Shows neither the values of headers nor the query: they may hold secrets.
impl fmt::Debug for HttpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = (self.url.scheme_str(), self.url.host(), self.url.port_u16(), self.url.path());
        let names: Vec<_> = self.headers.keys().collect();
        f.debug_struct("HttpSpec").field("url", &address).field("headers", &names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let url = Uri::from_static("https://u:hunter2@example.com/mcp?key=hunter2");
        let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, "hunter2".parse().unwrap())]);
        let shown = format!("{:?}", HttpSpec::new(url, headers));
        assert!(!shown.contains("hunter2") && shown.contains("authorization"), "{shown}");
        assert!(shown.contains("example.com"), "{shown}");
    }
}
