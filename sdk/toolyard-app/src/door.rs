//! The address of Toolyard.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use toolyard_model::local;

/// An address to dial.
///
/// ```
/// use toolyard_app::Door;
///
/// assert_eq!(Door::default(), Door::Tcp(([127, 0, 0, 1], 5100).into()));
/// let local = Door::Local("/run/user/1000/toolyard/apps.sock".into());
/// # assert_ne!(local, Door::default());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// Newline JSON over TCP.
    Tcp(SocketAddr),
    /// The same over the local socket `apps.sock`.
    Local(PathBuf),
}

impl Default for Door {
    /// `127.0.0.1:5100`.
    fn default() -> Self {
        Self::Tcp(SocketAddr::from(([127, 0, 0, 1], 5100)))
    }
}

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Both directions of a connection.
pub(crate) fn halves(stream: TcpStream) -> io::Result<(Reader, Writer)> {
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    Ok((Box::new(read), Box::new(write)))
}

impl Door {
    pub(crate) async fn open(&self) -> io::Result<(Reader, Writer)> {
        match self {
            Self::Tcp(address) => halves(TcpStream::connect(address).await?),
            Self::Local(path) => {
                let stream = local::connect(path).await?;
                local::refuse_strangers(&stream)?;
                let (read, write) = tokio::io::split(stream);
                Ok((Box::new(read), Box::new(write)))
            }
        }
    }
}
