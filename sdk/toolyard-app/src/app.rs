//! An app: its name, its tools, and the connection that is kept up for them.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolyard_model::{BoxFuture, Link, Scope};
use toolyard_proto::token::Secret;
use toolyard_tool::{Door as ServerDoor, ServeError, Server, ToolSet};

use crate::Door;
use crate::session::{Ended, Session};

/// The first wait after a connection could not be made or was lost, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long unregistering may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// The state of an app's registration.
///
/// ```
/// use toolyard_app::{App, Door, AppStatus};
/// use toolyard_tool::ToolSet;
///
/// fn word(status: &AppStatus) -> String {
///     match status {
///         AppStatus::Registered => "agents can call it".into(),
///         AppStatus::Away(None) => "dialling".into(),
///         AppStatus::Away(Some(why)) => format!("not yet: {why}"),
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> std::io::Result<()> {
/// // A listener that accepts the connection and sends nothing.
/// let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let app = App::new("Greeter", ToolSet::new("greeter", "1.0.0")).at(Door::Tcp(silent.local_addr()?));
/// assert_eq!(word(&app.start().status()), "dialling");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppStatus {
    /// Connecting, or waiting to connect again; with the reason, if something went wrong.
    Away(Option<String>),
    /// Registered and callable.
    Registered,
}

/// Makes a token for a connection.
pub(crate) type Token = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves the tools as an MCP server at an HTTP address.
type ServeHttp = Box<dyn FnOnce(String) -> BoxFuture<Result<Server, ServeError>> + Send + Sync>;

/// A running app that offers tools.
///
/// ```
/// use std::time::Duration;
/// use toolyard_app::{App, Door};
/// use toolyard_tool::{ToolSet, tool};
///
/// /// Turns the lamp on.
/// #[tool(idempotent)]
/// async fn light() {}
///
/// # #[tokio::main]
/// # async fn main() -> std::io::Result<()> {
/// # let free_port = tokio::net::TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
/// let app = App::new("Lamp", ToolSet::new("lamp", "1.0.0").with::<light>())
///     .at(Door::Tcp(free_port))
///     .first_wait(Duration::from_millis(100))
///     .token(|| "a new one for each connection".into());
/// // No gateway is running yet, which is not an error: the app keeps connecting.
/// assert!(tokio::time::timeout(Duration::from_millis(20), app.run()).await.is_err());
/// # Ok(())
/// # }
/// ```
pub struct App {
    pub(crate) name: Arc<str>,
    door: Door,
    pub(crate) token: Option<Token>,
    /// A gateway that connects must prove that it knows this secret.
    pub(crate) secret: Option<Secret>,
    pub(crate) link: Arc<dyn Link>,
    pub(crate) serve_http: ServeHttp,
    first_wait: Duration,
    /// The folder for the instance file, if not the default one.
    pub(crate) instances: Option<PathBuf>,
}

impl App {
    /// An app under a name of its own: a letter, then letters, digits, `_` and `-`.
    pub fn new<S: Send + Sync + 'static>(name: &str, tools: ToolSet<S>) -> Self {
        Self::sharing(name, &Arc::new(tools))
    }

    /// Like [`new`](Self::new), for tools that are used elsewhere, too.
    pub fn sharing<S: Send + Sync + 'static>(name: &str, tools: &Arc<ToolSet<S>>) -> Self {
        let shared = tools.clone();
        let serve_http = Box::new(move |address: String| -> BoxFuture<Result<Server, ServeError>> {
            Box::pin(async move { Server::share(&shared, [ServerDoor::Http(address)]).await })
        });
        Self {
            name: name.into(),
            door: Door::default(),
            token: None,
            secret: None,
            link: tools.connect().link,
            serve_http,
            first_wait: FIRST_WAIT,
            instances: None,
        }
    }

    /// The address of Toolyard; by default `127.0.0.1:5100`.
    #[must_use]
    pub fn at(mut self, door: Door) -> Self {
        self.door = door;
        self
    }

    /// Makes a token for each connection, where Toolyard requires one.
    #[must_use]
    pub fn token(mut self, make: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.token = Some(Arc::new(make));
        self
    }

    /// The secret that the app shares with Toolyard (`secret` in `[auth]`), in base64. The app makes a token from it
    /// for each connection, under its own name. When it listens, a gateway that dials must prove that it knows the
    /// secret, too.
    ///
    /// ```
    /// # use toolyard_app::App;
    /// # use toolyard_tool::ToolSet;
    /// let app = App::new("Lamp", ToolSet::new("lamp", "1.0.0"));
    /// assert!(app.secret("c2hhcmVkIHdpdGggdG9vbHlhcmQ=").is_ok());
    /// # let app = App::new("Lamp", ToolSet::new("lamp", "1.0.0"));
    /// assert!(app.secret("too short").is_err());
    /// ```
    pub fn secret(mut self, base64: &str) -> io::Result<Self> {
        let secret = Secret::parse(base64).ok_or_else(|| {
            let why =
                "the secret must be base64 of at least 16 bytes; `toolyard token --new-secret` makes one";
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        self.secret = Some(secret.clone());
        let (name, last) = (self.name.clone(), AtomicU64::new(0));
        Ok(self.token(move || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            // A token is valid once, and its timestamp has seconds: further ones within a second get later timestamps.
            let next = |last: u64| Some(now.max(last + 1));
            let last = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            secret.mint(&name, now.max(last.unwrap_or_default() + 1))
        }))
    }

    /// How long to wait before the second attempt; doubled with each further one, up to half a minute.
    #[must_use]
    pub fn first_wait(mut self, wait: Duration) -> Self {
        self.first_wait = wait;
        self
    }

    /// Keeps the app registered until the future is dropped.
    pub async fn run(self) {
        let (status, _) = watch::channel(AppStatus::Away(None));
        let scope = Scope::new();
        let _ends = EndOnDrop(scope.clone());
        self.keep(&status, &scope).await;
    }

    /// The same in the background, until it is ended or dropped.
    pub fn start(self) -> Running {
        let (status, seen) = watch::channel(AppStatus::Away(None));
        let scope = Scope::new();
        let inner = scope.clone();
        let (stop, mut stopped) = watch::channel(false);
        let finished = CancellationToken::new();
        let finish = finished.clone().drop_guard();
        scope.spawn(async move {
            let _finish = finish;
            self.keep_until(&status, &inner, &mut stopped).await;
        });
        Running { scope, status: seen, stop, finished }
    }

    async fn keep(&self, status: &watch::Sender<AppStatus>, scope: &Scope) {
        let (_stop, mut stopped) = watch::channel(false);
        self.keep_until(status, scope, &mut stopped).await;
    }

    async fn keep_until(
        &self,
        status: &watch::Sender<AppStatus>,
        scope: &Scope,
        stopped: &mut watch::Receiver<bool>,
    ) {
        let (mut wait, mut session_id) = (self.first_wait, None);
        while !*stopped.borrow() {
            let mut session = Session::new(&self.name, self.link.clone(), scope);
            let token = self.token.as_ref().map(|make| make());
            let ended = session.run(&self.door, &mut session_id, token, status, stopped).await;
            let why = match ended {
                Ended::Stopped => break,
                Ended::Lost(why) => why,
            };
            if *status.borrow() == AppStatus::Registered {
                wait = self.first_wait;
            }
            tracing::debug!(app = %self.name, %why, "not registered");
            status.send_replace(AppStatus::Away(Some(why)));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        status.send_replace(AppStatus::Away(None));
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("name", &self.name).field("door", &self.door).finish_non_exhaustive()
    }
}

struct EndOnDrop(Scope);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// An app that is kept registered in the background. Dropping it disconnects.
///
/// ```
/// use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
/// use toolyard_app::{App, Door, AppStatus};
/// use toolyard_tool::ToolSet;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Plays the role of Toolyard, which confirms the registration.
/// let toolyard = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let app = App::new("Lamp", ToolSet::new("lamp", "1.0.0")).at(Door::Tcp(toolyard.local_addr()?));
///
/// let mut running = app.start();
/// let (stream, _) = toolyard.accept().await?;
/// let mut stream = BufReader::new(stream);
/// let mut line = String::new();
/// stream.read_line(&mut line).await?;
/// assert!(line.contains(r#""type":"register""#));
/// stream.write_all(b"{\"type\":\"registered\"}\n").await?;
///
/// running.registered().await;
/// assert_eq!(running.status(), AppStatus::Registered);
/// running.end().await;
/// line.clear();
/// stream.read_line(&mut line).await?;
/// assert!(line.contains(r#""type":"unregister""#));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Running {
    scope: Scope,
    status: watch::Receiver<AppStatus>,
    stop: watch::Sender<bool>,
    finished: CancellationToken,
}

impl Running {
    /// The current state of the registration.
    pub fn status(&self) -> AppStatus {
        self.status.borrow().clone()
    }

    /// Waits until it is registered.
    pub async fn registered(&mut self) {
        let _ = self.status.wait_for(|status| *status == AppStatus::Registered).await;
    }

    /// Unregisters, so that its tools are gone at once, and ends.
    pub async fn end(self) {
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(GOODBYE, self.finished.cancelled()).await;
        // The last line is on its way; the scope ends with this.
        tokio::task::yield_now().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.scope.cancel();
    }
}
