//! A named pipe for callers on this machine. Its name is made from the path, so that a client that knows where the
//! socket would be finds the pipe; a path that is the name of a pipe already is used as the name.
//!
//! By default, the system allows its owner, administrators and the system to use a pipe. Other users of the machine can
//! at most open it for reading, and receive nothing, because only requests are answered. Anything stricter needs
//! unsafe code.

mod stream;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeServer, ServerOptions};

use crate::Transport;
pub use stream::LocalStream;

/// What a local socket is.
pub const TRANSPORT: Transport = Transport::Pipe;

/// Every instance of the pipe has a client, and the next is being made.
const PIPE_BUSY: i32 = 231;
/// A client connected and disconnected before it was accepted.
const NO_DATA: i32 = 232;
/// The listener may learn which user opens a pipe, but not act for that user.
const SECURITY_IDENTIFICATION: u32 = 0x0001_0000;
const PAUSE: Duration = Duration::from_millis(10);
/// How long a client waits for an instance, and a listener for the end of its predecessor: a pipe is there
/// until the last client of a dead listener has closed its end.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The prefix of the names of pipes.
const PIPES: &str = r"\\.\pipe\";

/// Connects to the listener at `path`.
pub async fn connect(path: &Path) -> io::Result<LocalStream> {
    let name = pipe_name(path);
    let begun = Instant::now();
    loop {
        match ClientOptions::new().open(&name) {
            Err(error) if is_busy(&error) && begun.elapsed() < LONGEST_WAIT => {
                tokio::time::sleep(PAUSE).await;
            }
            opened => return opened.map(LocalStream::Client),
        }
    }
}

/// Whether a program listens at `path` now. That program sees a client connect and disconnect.
pub fn is_answered(path: &Path) -> bool {
    match open(&pipe_name(path)) {
        Ok(_) => true,
        Err(error) => is_busy(&error),
    }
}

/// The process at the other end of a connection. The system reports it only through functions that need unsafe code.
pub fn peer(_: &LocalStream) -> Option<u32> {
    None
}

/// An error if another user is at the other end. This cannot be checked here; a process of another user that took
/// the name first can at least not act as us, since pipes are opened for identification only.
pub fn refuse_strangers(_: &LocalStream) -> io::Result<()> {
    Ok(())
}

/// Listens for as long as it lives.
#[derive(Debug)]
pub struct LocalListener {
    path: PathBuf,
    name: String,
    /// The instance that waits for the next client.
    next: Mutex<Option<NamedPipeServer>>,
}

impl LocalListener {
    /// Takes the name, unless another program has it. It first tries to connect, as for a socket: Wine,
    /// which does not support the flag for the first instance, would allow a second listener.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let name = pipe_name(path);
        let begun = Instant::now();
        loop {
            match claim(&name) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < LONGEST_WAIT => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(in_use()),
                claimed => {
                    let next = Mutex::new(Some(claimed?));
                    return Ok(Self { path: path.to_owned(), name, next });
                }
            }
        }
    }

    /// The next client. Dropping this loses none: the instance continues to wait.
    pub async fn accept(&self) -> io::Result<LocalStream> {
        loop {
            let waiting = Waiting { listener: self, instance: Some(self.waiting()?) };
            match waiting.client().await {
                // Only that one client is lost.
                Err(error) if error.raw_os_error() == Some(NO_DATA) => {}
                client => return client.map(LocalStream::Server),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn waiting(&self) -> io::Result<NamedPipeServer> {
        let waiting = self.next.lock().take();
        waiting.map_or_else(|| options().create(&self.name), Ok)
    }

    fn put(&self, instance: NamedPipeServer) {
        *self.next.lock() = Some(instance);
    }
}

/// An instance that waits for a client; put back if its future is dropped.
struct Waiting<'a> {
    listener: &'a LocalListener,
    instance: Option<NamedPipeServer>,
}

impl Waiting<'_> {
    /// The next instance exists before this one is handed over, so that no client finds the name gone.
    async fn client(mut self) -> io::Result<NamedPipeServer> {
        let connected = match &self.instance {
            Some(instance) => instance.connect().await,
            None => Ok(()),
        };
        let instance = self.instance.take();
        self.listener.put(options().create(&self.listener.name)?);
        connected?;
        instance.ok_or_else(|| ErrorKind::NotConnected.into())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(instance) = self.instance.take() {
            self.listener.put(instance);
        }
    }
}

/// The first instance. It would block if we cannot connect and the name is not free either: another process
/// serves another client at this moment, or is dead and its clients have not noticed yet.
fn claim(name: &str) -> io::Result<NamedPipeServer> {
    match open(name) {
        Ok(_) => Err(in_use()),
        Err(error) if is_busy(&error) => Err(ErrorKind::WouldBlock.into()),
        Err(_) => match options().first_pipe_instance(true).create(name) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(ErrorKind::WouldBlock.into()),
            created => created,
        },
    }
}

fn in_use() -> io::Error {
    io::Error::new(ErrorKind::AddrInUse, "another program listens there")
}

fn options() -> ServerOptions {
    let mut options = ServerOptions::new();
    options.reject_remote_clients(true);
    options
}

/// Opened as a file, which needs no runtime.
fn open(name: &str) -> io::Result<File> {
    File::options().read(true).write(true).security_qos_flags(SECURITY_IDENTIFICATION).open(name)
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(PIPE_BUSY)
}

/// Paths that differ only in case or slashes are one, as they are for files. The hash distinguishes names that would
/// be equal after cutting, and keeps the name within the 256 characters that are allowed.
fn pipe_name(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.starts_with(PIPES) {
        return text.into_owned();
    }
    let hash = Sha256::digest(text.replace('/', "\\").to_lowercase());
    let file = path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let file: String = file.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    format!("{PIPES}toolyard-{}-{file}", HEXLOWER.encode(&hash[..8]))
}

#[cfg(test)]
mod tests;
