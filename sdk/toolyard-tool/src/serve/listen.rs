//! Opening a door, and what happens at it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use toolyard_transport::serve::{Endpoint, serve_http, serve_stream};
use toolyard_transport::{Principal, Scope, View};

use super::{Door, ServeError, Server};

/// Connections and their calls that are under way at once.
const MOST: usize = 1_000;

/// A door that is open, but where nobody is let in yet.
pub(super) enum Listening {
    Stdio,
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
    Http(TcpListener),
}

impl Listening {
    pub(super) async fn open(door: Door) -> Result<Self, ServeError> {
        match door {
            Door::Stdio => Ok(Self::Stdio),
            Door::Tcp(address) => bind(&address).await.map(Self::Tcp),
            Door::Http(address) => bind(&address).await.map(Self::Http),
            Door::Unix(path) => {
                let listener =
                    bind_unix(&path).await.map_err(|source| refused(&path.to_string_lossy(), source))?;
                Ok(Self::Unix(listener, path))
            }
        }
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) | Self::Http(listener) => listener.local_addr().ok(),
            Self::Stdio | Self::Unix(..) => None,
        }
    }

    pub(super) fn serve(self, server: &Server) {
        let (endpoint, scope) = (server.endpoint.clone(), server.scope.child());
        match self {
            Self::Http(listener) => server.scope.spawn(serve_http(listener, endpoint, scope)),
            Self::Stdio => {
                let left = server.stdio.clone();
                server.scope.spawn(async move {
                    let (read, write) = (tokio::io::stdin(), tokio::io::stdout());
                    serve_stream(read, write, endpoint, View::Everything, Principal::local(), scope).await;
                    left.cancel();
                });
            }
            Self::Tcp(listener) => server.scope.spawn(async move {
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => welcome(stream.into_split(), &endpoint, &scope),
                        Err(error) => recover(&error).await,
                    }
                }
            }),
            Self::Unix(listener, path) => server.scope.spawn(async move {
                let _remove = RemoveOnDrop(path);
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => welcome(stream.into_split(), &endpoint, &scope),
                        Err(error) => recover(&error).await,
                    }
                }
            }),
        }
    }
}

/// Out of file descriptors, most likely: waiting is all that helps.
async fn recover(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

fn welcome<R, W>((read, write): (R, W), endpoint: &Arc<Endpoint>, scope: &Scope)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    if scope.tasks() >= MOST {
        tracing::warn!(limit = MOST, "too many connections: this one is closed");
        return;
    }
    let (endpoint, inner) = (endpoint.clone(), scope.child());
    scope.spawn(serve_stream(read, write, endpoint, View::Everything, Principal::local(), inner));
}

async fn bind(address: &str) -> Result<TcpListener, ServeError> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let local = listener.local_addr()?;
        io::Result::Ok((listener, local))
    };
    let (listener, local) = bound.await.map_err(|source| refused(address, source))?;
    if local.ip().is_loopback() { Ok(listener) } else { Err(ServeError::NotLoopback(local)) }
}

/// A socket that nobody answers at any more is in the way of nobody.
async fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt;

    if path.exists() && UnixStream::connect(path).await.is_err() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn refused(door: &str, source: io::Error) -> ServeError {
    ServeError::Listen { door: door.to_owned(), source }
}

struct RemoveOnDrop(PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, "the socket's file is gone already");
        }
    }
}
