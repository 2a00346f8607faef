//! An app that listens: it binds, names its endpoint in an instance file, and registers with each gateway that
//! connects. On HTTP it is an MCP server, which has no registration.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::{Semaphore, watch};
use toolyard_model::local::{self, LocalListener};
use toolyard_model::{Link, Scope, accept_all};
use toolyard_proto::token::Secret;
use toolyard_tool::{ServeError, Server};

use crate::app::Token;
use crate::door::{Reader, Writer, halves};
use crate::instance::InstanceFile;
use crate::peer::is_of_another_user;
use crate::session::{Registration, Session};
use crate::{App, AppStatus};

/// How many connections may be open at the same time.
const MOST: usize = 64;
/// How long unregistering from all gateways may take.
const GOODBYE: Duration = Duration::from_secs(2);

impl App {
    /// Listens at a TCP address instead of dialling; port 0 lets the system choose. When this returns, an instance
    /// file names the endpoint, and every Toolyard of this user finds it. The file is removed when the app ends or
    /// the returned value is dropped.
    ///
    /// ```
    /// # use toolyard_app::App;
    /// # use toolyard_tool::ToolSet;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let app = App::new("Greeter", ToolSet::new("greeter", "1.0.0"));
    /// # let app = app.instances_in(folder.path());
    /// let listening = app.listen("127.0.0.1:0").await?;
    /// println!("listening on {}", listening.endpoint());
    /// # let file = listening.file().to_owned();
    /// # assert!(std::fs::read_to_string(&file)?.contains(listening.endpoint()));
    /// listening.end().await;
    /// # assert!(!file.exists());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Fails if another app of this name listens already, and if other machines could reach the address.
    pub async fn listen(self, address: impl ToSocketAddrs) -> io::Result<Listening> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            let why = format!("{address} can be reached from other machines; listen on 127.0.0.1");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.accept(Sockets::Tcp(listener), format!("tcp://{address}"), Some(address)).await
    }

    /// Listens on a local socket, which only programs of the same user can open.
    ///
    /// ```
    /// # use toolyard_app::App;
    /// # use toolyard_tool::ToolSet;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("app.sock");
    /// let app = App::new("Greeter", ToolSet::new("greeter", "1.0.0"));
    /// # let app = app.instances_in(folder.path());
    /// let listening = app.listen_local(&path).await?;
    /// assert_eq!(listening.endpoint(), format!("unix://{}", path.display()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn listen_local(self, path: impl AsRef<Path>) -> io::Result<Listening> {
        let path = std::path::absolute(path)?;
        let listener = LocalListener::bind(&path)?;
        self.accept(Sockets::Local(listener), format!("unix://{}", path.display()), None).await
    }

    /// Serves the tools as an MCP server over HTTP, at `/mcp` of this address. HTTP has no registration, so the
    /// app counts as registered from the start, and a gateway cannot prove that it knows a secret: with
    /// [`secret`](Self::secret) this fails. The port is open to all users of this machine.
    ///
    /// ```
    /// # use toolyard_app::App;
    /// # use toolyard_tool::ToolSet;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let app = App::new("Greeter", ToolSet::new("greeter", "1.0.0"));
    /// # let app = app.instances_in(folder.path());
    /// let listening = app.listen_http("127.0.0.1:0").await?;
    /// assert!(listening.endpoint().ends_with("/mcp"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn listen_http(self, address: impl Into<String>) -> io::Result<Listening> {
        if self.secret.is_some() {
            let why =
                "a gateway cannot prove over HTTP that it knows the secret: use `listen` or `listen_local`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let server = (self.serve_http)(address.into()).await.map_err(|error| match error {
            ServeError::Listen { source, .. } => source,
            error => io::Error::new(io::ErrorKind::InvalidInput, error),
        })?;
        let address = server.addresses().first().copied();
        let endpoint = address.map(|address| format!("http://{address}/mcp")).unwrap_or_default();
        let folder = self.instances.unwrap_or_else(InstanceFile::usual_folder);
        let file = InstanceFile::write(&folder, &self.name, &endpoint).await?;
        let (stop, _) = watch::channel(false);
        let (_, status) = watch::channel(AppStatus::Registered);
        let (scope, talks) = (Scope::new(), Scope::new());
        Ok(Listening { endpoint, address, file, scope, talks, stop, status, server: Some(server) })
    }

    /// The folder that the instance file is written to; `$XDG_RUNTIME_DIR/toolyard/instances` by default.
    #[must_use]
    pub fn instances_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.instances = Some(folder.into());
        self
    }

    /// The sockets are bound, so the system accepts connections from here on: a program that sees the file can
    /// connect.
    async fn accept(
        self,
        sockets: Sockets,
        endpoint: String,
        address: Option<SocketAddr>,
    ) -> io::Result<Listening> {
        let folder = self.instances.clone().unwrap_or_else(InstanceFile::usual_folder);
        let file = InstanceFile::write(&folder, &self.name, &endpoint).await?;
        let (stop, stopped) = watch::channel(false);
        let (status, seen) = watch::channel(AppStatus::Away(None));
        let (scope, talks) = (Scope::new(), Scope::new());
        let greeter = Greeter {
            name: self.name,
            link: self.link,
            token: self.token,
            secret: self.secret,
            status: Arc::new(status),
            stopped,
            talks: talks.clone(),
            room: Arc::new(Semaphore::new(MOST)),
        };
        scope.spawn(greeter.accept(sockets));
        Ok(Listening { endpoint, address, file, scope, talks, stop, status: seen, server: None })
    }
}

/// An app that can be dialled. Dropping it closes all connections and removes its file.
///
/// ```
/// use tokio::io::{AsyncBufReadExt, BufReader};
/// use toolyard_app::App;
/// use toolyard_tool::ToolSet;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let app = App::new("Greeter", ToolSet::new("greeter", "1.0.0")).instances_in(folder.path());
/// let listening = app.listen("127.0.0.1:0").await?;
/// assert!(listening.file().starts_with(folder.path()));
///
/// // Each program that connects receives the registration.
/// # let address = listening.address().ok_or("no address")?;
/// let toolyard = tokio::net::TcpStream::connect(address).await?;
/// let mut registration = String::new();
/// BufReader::new(toolyard).read_line(&mut registration).await?;
/// assert!(registration.contains(r#""appName":"Greeter""#));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Listening {
    endpoint: String,
    address: Option<SocketAddr>,
    file: InstanceFile,
    scope: Scope,
    /// The conversations.
    talks: Scope,
    stop: watch::Sender<bool>,
    status: watch::Receiver<AppStatus>,
    /// The MCP server, if it listens on HTTP.
    server: Option<Server>,
}

impl Listening {
    /// The endpoint: `tcp://…`, `unix://…` or `http://…`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The address, if it is one of TCP or HTTP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The instance file.
    pub fn file(&self) -> &Path {
        self.file.path()
    }

    /// The state of the latest connection.
    pub fn status(&self) -> AppStatus {
        self.status.borrow().clone()
    }

    /// Waits until a gateway has registered it.
    pub async fn registered(&mut self) {
        let _ = self.status.wait_for(|status| *status == AppStatus::Registered).await;
    }

    /// Removes the file, unregisters from all gateways, so that its tools are removed at once, and ends.
    pub async fn end(mut self) {
        self.file.remove();
        self.scope.cancel();
        self.stop.send_replace(true);
        if let Some(server) = self.server.take() {
            server.end().await;
        }
        let _ = tokio::time::timeout(GOODBYE, self.talks.finished()).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.scope.cancel();
        self.talks.cancel();
    }
}

/// The sockets at which gateways connect.
enum Sockets {
    Tcp(TcpListener),
    Local(LocalListener),
}

impl Sockets {
    /// The next connection; `None` if it came from another user.
    async fn accept(&self) -> io::Result<Option<(Reader, Writer)>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                if stream.local_addr().is_ok_and(|own| is_of_another_user(from, own)) {
                    return Ok(None);
                }
                halves(stream).map(Some)
            }
            Self::Local(listener) => {
                let stream = listener.accept().await?;
                if local::refuse_strangers(&stream).is_err() {
                    return Ok(None);
                }
                let (read, write) = tokio::io::split(stream);
                Ok(Some((Box::new(read), Box::new(write))))
            }
        }
    }
}

/// The greeting that begins every conversation.
struct Greeter {
    name: Arc<str>,
    link: Arc<dyn Link>,
    token: Option<Token>,
    secret: Option<Secret>,
    status: Arc<watch::Sender<AppStatus>>,
    stopped: watch::Receiver<bool>,
    talks: Scope,
    room: Arc<Semaphore>,
}

impl Greeter {
    async fn accept(self, sockets: Sockets) {
        let take = |accepted| {
            if let Some(streams) = accepted {
                self.greet(streams);
            } else {
                tracing::warn!(app = %self.name, "rejected a connection of another user");
            }
        };
        match accept_all("a connection", || sockets.accept(), take).await {}
    }

    fn greet(&self, streams: (Reader, Writer)) {
        let Ok(place) = self.room.clone().try_acquire_owned() else { return };
        let mut session = Session::new(&self.name, self.link.clone(), &self.talks);
        let registration =
            Registration { token: self.token.as_ref().map(|make| make()), secret: self.secret.clone() };
        let (status, mut stopped) = (self.status.clone(), self.stopped.clone());
        self.talks.spawn(async move {
            let lines = session.open(streams);
            session.speak(lines, &mut None, registration, &status, &mut stopped).await;
            status.send_replace(AppStatus::Away(None));
            drop(place);
        });
    }
}
