//! One builder for an app that offers its user interface to agents.

use std::io;
use std::sync::Arc;

use toolyard_app::{App, Door, Listening, Running};

use crate::{Ui, tools};

/// How the app and the gateway find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP on this machine.
    #[default]
    Tcp,
    /// A local socket that only programs of the same user can open.
    LocalSocket,
    /// HTTP on this machine, without a shared secret.
    Http,
}

/// An app that agents may see and operate: its name, how it is reached, and whether it needs a display.
///
/// ```
/// use toolyard_ui::{Embedded, Transport};
///
/// let notes = Embedded::new("Notes").transport(Transport::Tcp).port(0).headless(true);
/// assert!(notes.is_headless());
/// ```
#[derive(Clone, Debug)]
pub struct Embedded {
    app_id: String,
    shared_secret: Option<String>,
    transport: Transport,
    port: u16,
    is_headless: bool,
    is_advertised: bool,
}

impl Embedded {
    /// An app under a name of its own: a letter, then letters, digits, `_` and `-`.
    pub fn new(app_id: &str) -> Self {
        Self {
            app_id: app_id.to_owned(),
            shared_secret: None,
            transport: Transport::Tcp,
            port: 0,
            is_headless: false,
            is_advertised: true,
        }
    }

    /// The secret that the app shares with the gateway, in base64.
    #[must_use]
    pub fn secret(mut self, base64: &str) -> Self {
        self.shared_secret = Some(base64.to_owned());
        self
    }

    /// How the app is reached; TCP unless set.
    #[must_use]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// The port to listen on; 0, the default, lets the system choose.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Run without a display.
    #[must_use]
    pub fn headless(mut self, is_headless: bool) -> Self {
        self.is_headless = is_headless;
        self
    }

    /// Listen, and name the endpoint in a file where every gateway of this user finds it (the default). If it is off,
    /// the app dials the gateway instead and registers there.
    #[must_use]
    pub fn advertise(mut self, is_advertised: bool) -> Self {
        self.is_advertised = is_advertised;
        self
    }

    /// Whether it runs without a display.
    pub fn is_headless(&self) -> bool {
        self.is_headless
    }

    /// The name of the app.
    pub fn app_id(&self) -> &str {
        &self.app_id
    }

    /// Offers the interface to agents on a thread of its own, until the returned value is dropped.
    pub fn start_in_background(self, ui: Arc<dyn Ui>) -> io::Result<Background> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let started = runtime.block_on(self.start(ui))?;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("toolyard".into()).spawn(move || {
            runtime.block_on(async {
                // Dropping the sender ends it, too.
                let _ = stopped.await;
                match started {
                    Started::Listening(listening) => listening.end().await,
                    Started::Dialling(running) => running.end().await,
                }
            });
        })?;
        Ok(Background { stop: Some(stop), thread: Some(thread) })
    }

    /// Offers the interface to agents until the returned value is dropped. Needs a Tokio runtime.
    pub async fn start(self, ui: Arc<dyn Ui>) -> io::Result<Started> {
        let mut app = App::new(&self.app_id, tools(ui));
        if let Some(secret) = &self.shared_secret {
            app = app.secret(secret)?;
        }
        if !self.is_advertised {
            return Ok(Started::Dialling(app.at(Door::default()).start()));
        }
        let address = ("127.0.0.1", self.port);
        let listening = match self.transport {
            Transport::Tcp => app.listen(address).await?,
            Transport::LocalSocket => {
                let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, Into::into);
                app.listen_local(folder.join(format!("{}-{}.sock", self.app_id, std::process::id()))).await?
            }
            Transport::Http => app.listen_http(format!("{}:{}", address.0, address.1)).await?,
        };
        Ok(Started::Listening(listening))
    }
}

/// An app that a thread of its own offers to agents. Dropping it takes the offer back.
#[derive(Debug)]
pub struct Background {
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was already reported.
            let _ = thread.join();
        }
    }
}

/// An app that is offered to agents. Dropping it takes the offer back.
#[derive(Debug)]
pub enum Started {
    /// It listens, and a file names its endpoint.
    Listening(Listening),
    /// It dials the gateway.
    Dialling(Running),
}
