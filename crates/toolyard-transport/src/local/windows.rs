//! A named pipe, `\\.\pipe\…` made from the path, for callers on this machine.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions};

/// `ERROR_PIPE_BUSY`: every instance of the pipe has a client, and the next is being made.
const PIPE_BUSY: i32 = 231;
const PAUSE: Duration = Duration::from_millis(20);

/// Either end of a pipe.
#[derive(Debug)]
pub enum LocalStream {
    Client(NamedPipeClient),
    Server(NamedPipeServer),
}

/// Connects to whoever listens at `path`.
pub async fn connect(path: &Path) -> io::Result<LocalStream> {
    let name = pipe_name(path);
    loop {
        match ClientOptions::new().open(&name) {
            Err(error) if error.raw_os_error() == Some(PIPE_BUSY) => tokio::time::sleep(PAUSE).await,
            opened => return opened.map(LocalStream::Client),
        }
    }
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
    /// Takes the name; an error if another program has it.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let name = pipe_name(path);
        let first = options().first_pipe_instance(true).create(&name)?;
        Ok(Self { path: path.to_owned(), name, next: Mutex::new(Some(first)) })
    }

    pub async fn accept(&self) -> io::Result<LocalStream> {
        let waiting = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        let waiting = waiting.map_or_else(|| options().create(&self.name), Ok)?;
        waiting.connect().await?;
        // The next instance exists before this one is used, so that no client finds the name gone.
        let next = options().create(&self.name)?;
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
        Ok(LocalStream::Server(waiting))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn options() -> ServerOptions {
    let mut options = ServerOptions::new();
    options.reject_remote_clients(true);
    options
}

fn pipe_name(path: &Path) -> String {
    let text = path.to_string_lossy();
    let name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!(r"\\.\pipe\toolyard-{}", name.trim_matches('-'))
}

impl AsyncRead for LocalStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Client(pipe) => Pin::new(pipe).poll_read(cx, buf),
            Self::Server(pipe) => Pin::new(pipe).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Client(pipe) => Pin::new(pipe).poll_write(cx, buf),
            Self::Server(pipe) => Pin::new(pipe).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Client(pipe) => Pin::new(pipe).poll_flush(cx),
            Self::Server(pipe) => Pin::new(pipe).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Client(pipe) => Pin::new(pipe).poll_shutdown(cx),
            Self::Server(pipe) => Pin::new(pipe).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn clients_come_one_after_the_other() {
        let path = Path::new(r"C:\users\me\toolyard\0123\mcp.sock");
        assert!(connect(path).await.is_err());
        let listener = LocalListener::bind(path).unwrap();
        for round in 0..3 {
            let (client, server) = tokio::join!(connect(path), listener.accept());
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            client.write_all(&[round, b'\n']).await.unwrap();
            let mut heard = [0; 2];
            server.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, [round, b'\n']);
            server.write_all(b"well\n").await.unwrap();
            let mut heard = [0; 5];
            client.read_exact(&mut heard).await.unwrap();
            assert_eq!(&heard, b"well\n");
            drop(server);
            assert!(!matches!(client.read(&mut [0; 8]).await, Ok(1..)), "the end is seen");
        }
        drop(listener);
        assert!(connect(path).await.is_err());
    }
}
