//! One builder for an app that offers its user interface to agents.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
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
/// let notes = Embedded::new("Notes").transport(Transport::Tcp).port(0).headless(false);
/// assert!(!notes.is_headless(), "it opens a window, or fails where there is no display");
/// ```
#[derive(Clone, Debug)]
pub struct Embedded {
    app_id: String,
    shared_secret: Option<String>,
    transport: Transport,
    port: u16,
    may_be_headless: bool,
    is_advertised: bool,
    door: Door,
    instances: Option<PathBuf>,
}

impl Embedded {
    /// An app under a name of its own: a letter, then letters, digits, `_` and `-`.
    pub fn new(app_id: &str) -> Self {
        Self {
            app_id: app_id.to_owned(),
            shared_secret: None,
            transport: Transport::Tcp,
            port: 0,
            may_be_headless: true,
            is_advertised: true,
            door: Door::default(),
            instances: None,
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

    /// Whether the app may run without a display where there is none; it may unless set.
    #[must_use]
    pub fn headless(mut self, may_be_headless: bool) -> Self {
        self.may_be_headless = may_be_headless;
        self
    }

    /// Listen, and name the endpoint in a file where every gateway of this user finds it (the default). If it is off,
    /// the app dials the gateway instead and registers there.
    #[must_use]
    pub fn advertise(mut self, is_advertised: bool) -> Self {
        self.is_advertised = is_advertised;
        self
    }

    /// Sets the address of the gateway that the app dials if it is not advertised; `127.0.0.1:5100` unless set.
    #[must_use]
    pub fn at(mut self, door: Door) -> Self {
        self.door = door;
        self
    }

    /// The folder of the file that names the endpoint, and of the local socket; gateways look into the default.
    #[must_use]
    pub fn instances_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.instances = Some(folder.into());
        self
    }

    /// Whether the app is to draw in memory instead of a window: it may, and this process has no display.
    pub fn is_headless(&self) -> bool {
        self.may_be_headless && !has_display(std::env::consts::OS, |name| std::env::var_os(name))
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
            return Ok(Started::Dialling(app.at(self.door).start()));
        }
        if let Some(folder) = &self.instances {
            app = app.instances_in(folder);
        }
        let address = ("127.0.0.1", self.port);
        let listening = match self.transport {
            Transport::Tcp => app.listen(address).await?,
            Transport::LocalSocket => {
                let usual =
                    || std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, Into::into);
                let folder = self.instances.unwrap_or_else(usual);
                app.listen_local(folder.join(format!("{}-{}.sock", self.app_id, std::process::id()))).await?
            }
            Transport::Http => app.listen_http(format!("{}:{}", address.0, address.1)).await?,
        };
        Ok(Started::Listening(listening))
    }
}

/// Whether a window can be opened, as far as the environment shows: Windows and macOS need no variable for it.
fn has_display(system: &str, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    matches!(system, "windows" | "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(is_set)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_display_is_named_by_a_variable_that_is_not_empty_or_belongs_to_the_system() {
        let with = |system: &str, set: &[(&str, &str)]| {
            has_display(system, |name| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
            })
        };
        assert!(!with("linux", &[]));
        assert!(!with("linux", &[("DISPLAY", "")]));
        assert!(with("linux", &[("DISPLAY", ":0")]));
        assert!(with("linux", &[("WAYLAND_DISPLAY", "wayland-0")]));
        assert!(with("windows", &[]) && with("macos", &[]));
    }

    #[test]
    fn an_app_that_may_not_be_headless_never_is() {
        assert!(!Embedded::new("Notes").headless(false).is_headless());
    }
}
