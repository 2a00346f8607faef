//! Serves a set to clients: on stdio, TCP, a Unix socket and HTTP, all through the one server endpoint.

mod arguments;
mod listen;
mod program;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use toolyard_model::{BoxFuture, Scope};
use toolyard_serve::{Endpoint, Options, serve_pipe};

use crate::ToolSet;
use listen::Listening;

pub use arguments::UsageError;
pub use program::{run, run_on};

/// How long answers under way may take when a server ends.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A place where clients connect.
///
/// ```
/// use toolyard_tool::Door;
///
/// let doors = [Door::Stdio, Door::Http("127.0.0.1:8000".into()), Door::Unix("/run/clock.sock".into())];
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// The one client that started this process. Nothing else may be printed on stdout then.
    Stdio,
    /// Newline-delimited messages over TCP, on loopback only.
    Tcp(String),
    /// The same over a Unix socket, which only its owner can open.
    Unix(PathBuf),
    /// Streamable HTTP at `/mcp`, on loopback only.
    Http(String),
}

/// Why a set cannot be served.
///
/// ```
/// # use toolyard_tool::{Door, ServeError, Server, ToolSet};
/// # #[tokio::main]
/// # async fn main() {
/// let doors = [Door::Tcp("0.0.0.0:0".into())];
/// let refused = Server::start(ToolSet::new("clock", "1.0.0"), doors).await.unwrap_err();
/// assert!(matches!(refused, ServeError::NotLoopback(_)));
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen on {door}")]
    Listen {
        /// Where.
        door: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Other machines could reach it without authentication.
    #[error(
        "{0} is reachable from elsewhere: listen on 127.0.0.1, and put a gateway with authentication in front"
    )]
    NotLoopback(SocketAddr),
    /// The arguments of the program were not understood.
    #[error(transparent)]
    Usage(#[from] UsageError),
}

/// Serves a set until the client on stdio leaves or the process receives a signal to end.
///
/// ```
/// # use std::time::Duration;
/// # use toolyard_tool::{Door, ToolSet};
/// # #[tokio::main]
/// # async fn main() {
/// let set = ToolSet::new("clock", "1.0.0");
/// let serving = toolyard_tool::serve(set, [Door::Http("127.0.0.1:0".into())]);
/// // Nothing stops this server, so the example waits only for a moment.
/// assert!(tokio::time::timeout(Duration::from_millis(20), serving).await.is_err());
/// # }
/// ```
pub async fn serve<S: Send + Sync + 'static>(
    set: ToolSet<S>,
    doors: impl IntoIterator<Item = Door>,
) -> Result<(), ServeError> {
    let server = Server::start(set, doors).await?;
    tokio::select! {
        () = server.left() => {}
        () = program::end_signal() => {}
    }
    server.end().await;
    Ok(())
}

/// A set that is being served. Ends when it is dropped, or better with [`Server::end`].
///
/// ```
/// # use toolyard_tool::{Door, Server, ToolSet};
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let set = ToolSet::new("clock", "1.0.0");
/// let server = Server::start(set, [Door::Http("127.0.0.1:0".into())]).await?;
/// println!("http://{}/mcp", server.addresses()[0]);
/// server.end().await;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    endpoint: Arc<Endpoint>,
    scope: Scope,
    /// Ends when the client on stdio leaves.
    stdio: Scope,
    addresses: Vec<SocketAddr>,
    end_set: Box<dyn Fn() -> BoxFuture<()> + Send + Sync>,
}

impl Server {
    /// Opens all doors, or none if one cannot be opened.
    pub async fn start<S: Send + Sync + 'static>(
        set: ToolSet<S>,
        doors: impl IntoIterator<Item = Door>,
    ) -> Result<Self, ServeError> {
        let set = Arc::new(set);
        let mut server = Self::share(&set, doors).await?;
        server.end_set = Box::new(move || -> BoxFuture<()> {
            let set = set.clone();
            Box::pin(async move { set.end().await })
        });
        Ok(server)
    }

    /// [`start`](Self::start) for a set that is also used elsewhere: the set stays in use when the server ends.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use toolyard_tool::{Door, Server, ToolSet};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let set = Arc::new(ToolSet::new("clock", "1.0.0"));
    /// let server = Server::share(&set, [Door::Http("127.0.0.1:0".into())]).await?;
    /// # assert_eq!(server.addresses().len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn share<S: Send + Sync + 'static>(
        set: &Arc<ToolSet<S>>,
        doors: impl IntoIterator<Item = Door>,
    ) -> Result<Self, ServeError> {
        let mut opened = Vec::new();
        for door in doors {
            opened.push(Listening::open(door).await?);
        }
        let scope = Scope::new();
        let endpoint = Arc::new(Endpoint::new(set.clone(), Options::default(), &scope));
        let end_set = Box::new(|| -> BoxFuture<()> { Box::pin(async {}) });
        let addresses = opened.iter().filter_map(Listening::address).collect();
        let server = Self { endpoint, stdio: scope.child(), scope, addresses, end_set };
        for listening in opened {
            listening.serve(&server);
        }
        Ok(server)
    }

    /// Serves one client over any pair of streams, until it leaves and has its answers. The program that passes the
    /// streams knows its client, so the connection counts as proven.
    ///
    /// ```
    /// # use toolyard_tool::{Server, ToolSet};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    /// let mut answers = Vec::new();
    /// let server = Server::start(ToolSet::new("clock", "1.0.0"), []).await?;
    /// server.serve_stream(ping.as_bytes(), &mut answers).await;
    /// assert_eq!(String::from_utf8(answers)?, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn serve_stream(
        &self,
        read: impl AsyncRead + Send + Unpin,
        write: impl AsyncWrite + Send + Unpin,
    ) {
        let (endpoint, scope) = (self.endpoint.clone(), self.scope.child());
        serve_pipe(read, write, endpoint, Duration::ZERO, scope).await;
    }

    /// The addresses of the TCP and HTTP doors, in the order of the doors.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits until the client on stdio has disconnected. Never returns if stdio is not served.
    async fn left(&self) {
        self.stdio.ended().await;
    }

    /// Lets answers under way finish for a moment, then closes everything.
    pub async fn end(self) {
        self.endpoint.end(LAST_ANSWERS).await;
        self.scope.end().await;
        if tokio::time::timeout(LAST_ANSWERS, (self.end_set)()).await.is_err() {
            tracing::warn!("a blocking function did not end in time");
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.scope.cancel();
    }
}
