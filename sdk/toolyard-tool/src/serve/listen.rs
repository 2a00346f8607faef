//! Opens a door and serves its clients.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use toolyard_model::local::LocalListener;
use toolyard_serve::{serve_http, serve_local, serve_pipe, serve_tcp};

use super::{Door, ServeError, Server};

/// How long calls may go on after the client on stdio has closed its end: as long as a gateway waits for a
/// tool.
const DRAIN: Duration = Duration::from_secs(30);

/// A bound listener that does not accept clients yet.
pub(super) enum Listening {
    Stdio,
    Tcp(TcpListener),
    Unix(LocalListener),
    Http(TcpListener),
}

impl Listening {
    pub(super) async fn open(door: Door) -> Result<Self, ServeError> {
        match door {
            Door::Stdio => Ok(Self::Stdio),
            Door::Tcp(address) => bind(&address).await.map(Self::Tcp),
            Door::Http(address) => bind(&address).await.map(Self::Http),
            Door::Unix(path) => LocalListener::bind(&path)
                .map(Self::Unix)
                .map_err(|source| refused(&path.to_string_lossy(), source)),
        }
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) | Self::Http(listener) => listener.local_addr().ok(),
            Self::Stdio | Self::Unix(_) => None,
        }
    }

    pub(super) fn serve(self, server: &Server) {
        let (endpoint, scope) = (server.endpoint.clone(), server.scope.child());
        match self {
            Self::Http(listener) => server.scope.spawn(serve_http(listener, endpoint, scope)),
            Self::Tcp(listener) => server.scope.spawn(serve_tcp(listener, endpoint, scope)),
            Self::Unix(listener) => server.scope.spawn(serve_local(listener, endpoint, scope)),
            Self::Stdio => {
                let left = server.stdio.clone();
                server.scope.spawn(async move {
                    serve_pipe(tokio::io::stdin(), tokio::io::stdout(), endpoint, DRAIN, scope).await;
                    left.cancel();
                });
            }
        }
    }
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

fn refused(door: &str, source: io::Error) -> ServeError {
    ServeError::Listen { door: door.to_owned(), source }
}
