//! Clients that send a line for each message: stdio, TCP, Unix socket.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::Command;
use toolyard_proto::{Raw, Revision};
use toolyard_tool::{Door, Server};

use super::Example;
use super::clients::{Client, Later, initialize, outcome, params_of, reply_to};

struct Lines {
    read: Box<dyn AsyncBufRead + Unpin>,
    write: Box<dyn AsyncWrite + Unpin>,
    revision: Revision,
    sent: u64,
    /// What must live as long as the connection.
    _keep: Box<dyn std::any::Any>,
}

pub(crate) fn stdio(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let mut child = Command::new(example.program.unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (read, write) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        Lines::open(read, write, revision, child).await
    })
}

pub(crate) fn tcp(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let server = Server::start((example.tools)(), [Door::Tcp("127.0.0.1:0".into())]).await.unwrap();
        let stream = TcpStream::connect(server.addresses()[0]).await.unwrap();
        let (read, write) = stream.into_split();
        Lines::open(read, write, revision, server).await
    })
}

pub(crate) fn unix(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.sock");
        let server = Server::start((example.tools)(), [Door::Unix(path.clone())]).await.unwrap();
        let (read, write) = UnixStream::connect(path).await.unwrap().into_split();
        Lines::open(read, write, revision, (server, folder)).await
    })
}

impl Lines {
    async fn open(
        read: impl tokio::io::AsyncRead + Unpin + 'static,
        write: impl AsyncWrite + Unpin + 'static,
        revision: Revision,
        keep: impl std::any::Any,
    ) -> Box<dyn Client> {
        let (read, write) = (Box::new(BufReader::new(read)), Box::new(write));
        let mut lines = Self { read, write, revision, sent: 0, _keep: Box::new(keep) };
        if !revision.is_modern() {
            let _ = lines.exchange("initialize", &initialize(revision).into()).await;
        }
        Box::new(lines)
    }

    async fn exchange(&mut self, method: &str, params: &Raw) -> Raw {
        self.sent += 1;
        let id = self.sent;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.write.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        loop {
            let mut line = String::new();
            let length = self.read.read_line(&mut line).await.unwrap();
            assert!(length > 0, "the server left");
            let message = Raw::parse(line).unwrap();
            if let Some(reply) = reply_to(&message) {
                self.write.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
            } else if message.member("id").is_some_and(|found| found.read::<u64>().unwrap() == id) {
                return outcome(&message);
            }
        }
    }
}

impl Client for Lines {
    fn call<'a>(&'a mut self, method: &'a str, params: Value) -> Later<'a, Raw> {
        let params = params_of(self.revision, &params);
        Box::pin(async move { self.exchange(method, &params).await })
    }
}
