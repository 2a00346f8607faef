//! How connections to HTTP upstreams are opened: plain or TLS, as the URL says. The system's certificates
//! are read once, and only when some upstream needs them.

use std::io;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::BoxFuture;

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Opens connections within a time limit that covers the TLS handshake.
#[derive(Clone)]
pub(crate) struct Connector {
    way: Way,
    limit: Duration,
}

#[derive(Clone)]
enum Way {
    Plain(HttpConnector),
    Tls(HttpsConnector<HttpConnector>),
}

impl Connector {
    pub(crate) fn new(url: &Uri, limit: Duration) -> io::Result<Self> {
        let way = if url.scheme() == Some(&Scheme::HTTPS) { Way::Tls(tls()?) } else { Way::Plain(tcp()) };
        Ok(Self { way, limit })
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

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Failure;
    type Future = BoxFuture<Result<Stream, Failure>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match &mut self.way {
            Way::Plain(tcp) => tcp.poll_ready(cx).map_err(Into::into),
            Way::Tls(tls) => tls.poll_ready(cx),
        }
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let connecting: Self::Future = match &mut self.way {
            Way::Plain(tcp) => {
                let connecting = tcp.call(url);
                Box::pin(async move { Ok(MaybeHttpsStream::Http(connecting.await?)) })
            }
            Way::Tls(tls) => tls.call(url),
        };
        let limit = self.limit;
        Box::pin(async move {
            let in_time = tokio::time::timeout(limit, connecting).await;
            in_time.unwrap_or_else(|_| Err(format!("no connection within {limit:?}").into()))
        })
    }
}
