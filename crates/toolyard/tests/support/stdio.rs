//! A server that is spoken to in lines: a child process of the test, or one behind a socket.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};

use crate::program::path;

pub(crate) struct Lines {
    _child: Option<Child>,
    write: Box<dyn AsyncWrite + Send + Unpin>,
    read: tokio::io::Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
}

impl Lines {
    /// To `tcp://ADDRESS` or `unix://PATH`; what comes after a `#` is the view to open.
    pub(crate) async fn connect(url: &str) -> Self {
        let (place, view) = url.split_once('#').map_or((url, None), |(place, view)| (place, Some(view)));
        let mut lines = match place.split_once("://") {
            Some(("tcp", address)) => Self::over(TcpStream::connect(address).await.unwrap()),
            Some(("unix", path)) => Self::over(UnixStream::connect(path).await.unwrap()),
            _ => panic!("{url} is not a place for lines"),
        };
        if let Some(view) = view {
            lines.write(&json!({ "toolyard": 1, "view": view }).to_string()).await;
        }
        lines
    }

    fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        let (read, write) = tokio::io::split(stream);
        let read: Box<dyn AsyncRead + Send + Unpin> = Box::new(read);
        Self { _child: None, write: Box::new(write), read: BufReader::new(read).lines() }
    }

    pub(crate) fn start(words: &[String]) -> Self {
        let pipe = std::process::Stdio::piped;
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            // As below a gateway, which marks its children to know them again.
            .env_clear()
            .env("PATH", path())
            .env("TOOLYARD_RUN_DIRECT", "1")
            .stdin(pipe())
            .stdout(pipe())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("start {words:?}: {error}"));
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout: Box<dyn AsyncRead + Send + Unpin> =
            Box::new(child.stdout.take().expect("stdout is piped"));
        Self { _child: Some(child), write: Box::new(stdin), read: BufReader::new(stdout).lines() }
    }

    pub(crate) async fn write(&mut self, message: &str) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        self.write.flush().await.unwrap();
    }

    pub(crate) async fn read(&mut self) -> Option<String> {
        self.read.next_line().await.unwrap()
    }
}
