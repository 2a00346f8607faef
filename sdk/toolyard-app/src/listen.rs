//! An app that waits to be dialled: it binds, says so in an instance file, and registers with whoever comes.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{Semaphore, watch};
use toolyard_model::{Link, Scope};

use crate::app::Token;
use crate::door::halves;
use crate::instance::InstanceFile;
use crate::peer::is_of_another_user;
use crate::session::Session;
use crate::{App, Standing};

/// How many may have dialled at the same time.
const MOST: usize = 64;
/// How long to wait after a connection could not be accepted, which is for want of files most likely.
const PAUSE: Duration = Duration::from_millis(100);
/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

impl App {
    /// Waits to be dialled at `address` instead of dialling; port 0 lets the system choose. From the moment at
    /// which this returns, an instance file says so, and every Toolyard of this user finds it. The file goes
    /// when the app ends or what is returned is dropped.
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
    /// println!("listening on {}", listening.address());
    /// # let file = listening.file().to_owned();
    /// # assert!(std::fs::read_to_string(&file)?.contains(&listening.address().port().to_string()));
    /// listening.end().await;
    /// # assert!(!file.exists());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It fails where another app of this name listens already, and where the address is not of this machine
    /// alone.
    pub async fn listen(self, address: impl ToSocketAddrs) -> io::Result<Listening> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            let why = format!("{address} can be reached from other machines; listen on 127.0.0.1");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let folder = self.instances.clone().unwrap_or_else(InstanceFile::usual_folder);
        // Connections are accepted from here on, if only by the system: whoever sees the file can dial.
        let file = InstanceFile::write(&folder, &self.name, address).await?;
        let (stop, stopped) = watch::channel(false);
        let (standing, seen) = watch::channel(Standing::Away(None));
        let (scope, talks) = (Scope::new(), Scope::new());
        let greeter = Greeter {
            name: self.name,
            link: self.link,
            token: self.token,
            standing: Arc::new(standing),
            stopped,
            talks: talks.clone(),
            room: Arc::new(Semaphore::new(MOST)),
        };
        scope.spawn(greeter.accept(listener));
        Ok(Listening { address, file, scope, talks, stop, standing: seen })
    }

    /// Where the instance file is written; `$XDG_RUNTIME_DIR/toolyard/instances` unless it is said.
    #[must_use]
    pub fn instances_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.instances = Some(folder.into());
        self
    }
}

/// An app that can be dialled. Dropping it hangs up and removes its file.
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
/// // Whoever dials is told who is here, and what it offers.
/// let toolyard = tokio::net::TcpStream::connect(listening.address()).await?;
/// let mut registration = String::new();
/// BufReader::new(toolyard).read_line(&mut registration).await?;
/// assert!(registration.contains(r#""appName":"Greeter""#));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    file: InstanceFile,
    scope: Scope,
    /// The conversations.
    talks: Scope,
    stop: watch::Sender<bool>,
    standing: watch::Receiver<Standing>,
}

impl Listening {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file that says so.
    pub fn file(&self) -> &Path {
        self.file.path()
    }

    /// How it stands with whoever dialled last.
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Waits until somebody has dialled and registered it.
    pub async fn registered(&mut self) {
        let _ = self.standing.wait_for(|standing| *standing == Standing::Registered).await;
    }

    /// Removes the file, says goodbye to everybody who dialled, so that its tools are gone at once, and ends.
    pub async fn end(self) {
        self.file.remove();
        self.scope.cancel();
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(GOODBYE, self.talks.finished()).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.scope.cancel();
        self.talks.cancel();
    }
}

/// What every conversation begins with.
struct Greeter {
    name: Arc<str>,
    link: Arc<dyn Link>,
    token: Option<Token>,
    standing: Arc<watch::Sender<Standing>>,
    stopped: watch::Receiver<bool>,
    talks: Scope,
    room: Arc<Semaphore>,
}

impl Greeter {
    async fn accept(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => self.greet(stream, from),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn greet(&self, stream: TcpStream, from: SocketAddr) {
        let Ok(place) = self.room.clone().try_acquire_owned() else { return };
        if stream.local_addr().is_ok_and(|own| is_of_another_user(from, own)) {
            tracing::warn!(app = %self.name, %from, "somebody of another user was turned away");
            return;
        }
        let mut session = Session::new(&self.name, self.link.clone(), &self.talks);
        let (token, standing, mut stopped) =
            (self.token.as_ref().map(|make| make()), self.standing.clone(), self.stopped.clone());
        self.talks.spawn(async move {
            let Ok(streams) = halves(stream) else { return };
            session.speak(streams, &mut None, token, &standing, &mut stopped).await;
            standing.send_replace(Standing::Away(None));
            drop(place);
        });
    }
}
