//! How connections to HTTP upstreams are opened: plain or TLS, depending on the URL. The system's certificates
//! are read once, and only when some upstream needs them, except for upstreams with a client certificate.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use toolyard_dial::{Dialer, Identity, tcp};
use toolyard_model::BoxFuture;
use tower_service::Service;

/// A stream of bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Opens connections in its own way, such as with keys of its own.
pub trait Dial: fmt::Debug + Send + Sync + 'static {
    fn dial(&self) -> BoxFuture<io::Result<Box<dyn Duplex>>>;
}

#[expect(
    clippy::large_enum_variant,
    reason = "the one that most calls use is not boxed: every call reads through it"
)]
pub(crate) enum Stream {
    TcpOrTls(MaybeHttpsStream<TokioIo<TcpStream>>),
    Dialled(TokioIo<Box<dyn Duplex>>),
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::TcpOrTls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Dialled(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::TcpOrTls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Dialled(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::TcpOrTls(stream) => Pin::new(stream).poll_flush(cx),
            Self::Dialled(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::TcpOrTls(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Dialled(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::TcpOrTls(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Self::Dialled(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::TcpOrTls(stream) => stream.is_write_vectored(),
            Self::Dialled(stream) => stream.is_write_vectored(),
        }
    }
}

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Opens connections within a time limit that covers the TLS handshake.
pub(crate) struct Connector {
    way: Way,
    limit: Duration,
}

#[derive(Clone)]
enum Way {
    Plain(HttpConnector),
    Tls(HttpsConnector<Dialer>),
    Own(Arc<dyn Dial>),
}

impl Way {
    async fn open(self, url: Uri) -> Result<Stream, Failure> {
        match self {
            Self::Plain(mut tcp) => {
                poll_fn(|cx| tcp.poll_ready(cx)).await?;
                Ok(Stream::TcpOrTls(MaybeHttpsStream::Http(tcp.call(url).await?)))
            }
            Self::Tls(mut tls) => {
                poll_fn(|cx| tls.poll_ready(cx)).await?;
                tls.call(url).await.map(Stream::TcpOrTls)
            }
            Self::Own(dial) => Ok(Stream::Dialled(TokioIo::new(dial.dial().await?))),
        }
    }
}

impl Connector {
    /// Opens connections through `dial`.
    pub(crate) fn own(dial: Arc<dyn Dial>, limit: Duration) -> Self {
        Self { way: Way::Own(dial), limit }
    }

    pub(crate) fn new(url: &Uri, identity: Option<&Identity>, limit: Duration) -> io::Result<Self> {
        let way = match (url.scheme() == Some(&Scheme::HTTPS), identity) {
            (true, Some(identity)) => Way::Tls(toolyard_dial::https(Some(identity))?),
            (true, None) => Way::Tls(tls()?),
            (false, _) => Way::Plain(tcp()),
        };
        Ok(Self { way, limit })
    }

    pub(crate) async fn connect(&self, url: Uri) -> Result<Stream, Failure> {
        let limit = self.limit;
        let in_time = tokio::time::timeout(limit, self.way.clone().open(url)).await;
        in_time.unwrap_or_else(|_| Err(format!("no connection within {limit:?}").into()))
    }
}

fn tls() -> io::Result<HttpsConnector<Dialer>> {
    static READY: OnceLock<HttpsConnector<Dialer>> = OnceLock::new();
    if let Some(ready) = READY.get() {
        return Ok(ready.clone());
    }
    let connector = toolyard_dial::https(None)?;
    Ok(READY.get_or_init(|| connector).clone())
}
