//! How connections to HTTP upstreams are opened: plain or TLS, as the URL says. The system's certificates
//! are read once, and only when some upstream needs them.

use std::future::poll_fn;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

pub(crate) type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Opens connections within a time limit that covers the TLS handshake.
pub(crate) struct Connector {
    way: Way,
    limit: Duration,
}

#[derive(Clone)]
enum Way {
    Plain(HttpConnector),
    Tls(HttpsConnector<HttpConnector>),
}

impl Way {
    async fn open(self, url: Uri) -> Result<Stream, Failure> {
        match self {
            Self::Plain(mut tcp) => {
                poll_fn(|cx| tcp.poll_ready(cx)).await?;
                Ok(MaybeHttpsStream::Http(tcp.call(url).await?))
            }
            Self::Tls(mut tls) => {
                poll_fn(|cx| tls.poll_ready(cx)).await?;
                tls.call(url).await
            }
        }
    }
}

impl Connector {
    pub(crate) fn new(url: &Uri, limit: Duration) -> io::Result<Self> {
        let way = if url.scheme() == Some(&Scheme::HTTPS) { Way::Tls(tls()?) } else { Way::Plain(tcp()) };
        Ok(Self { way, limit })
    }

    pub(crate) async fn connect(&self, url: Uri) -> Result<Stream, Failure> {
        let limit = self.limit;
        let in_time = tokio::time::timeout(limit, self.way.clone().open(url)).await;
        in_time.unwrap_or_else(|_| Err(format!("no connection within {limit:?}").into()))
    }
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    tcp.set_keepalive(Some(Duration::from_mins(1)));
    tcp
}

fn tls() -> io::Result<HttpsConnector<HttpConnector>> {
    static READY: OnceLock<HttpsConnector<HttpConnector>> = OnceLock::new();
    if let Some(ready) = READY.get() {
        return Ok(ready.clone());
    }
    let builder = HttpsConnectorBuilder::new().with_native_roots()?;
    Ok(READY.get_or_init(|| builder.https_only().enable_http1().wrap_connector(tcp())).clone())
}
