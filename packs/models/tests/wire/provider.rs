//! A provider that answers each request with a script of bytes and pauses.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What to do after the request was read.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Nothing more, while the connection stays open.
    Hang,
}

pub(crate) struct Provider {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    _tasks: JoinSet<()>,
}

impl Provider {
    /// Every connection gets one answer and is closed after it.
    pub(crate) async fn new(script: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let seen = asked.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(answer(stream, script.clone(), seen.clone()));
            }
        });
        Self { url, asked, _tasks: tasks }
    }

    /// The heads and bodies of the requests.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().clone()
    }
}

async fn answer(stream: TcpStream, script: Vec<Step>, asked: Arc<Mutex<Vec<(String, Value)>>>) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if read.read_line(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = head.to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    read.read_exact(&mut body).await.unwrap();
    asked.lock().push((head, serde_json::from_slice(&body).unwrap()));
    for step in script {
        match step {
            Step::Send(bytes) => {
                if write.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Hang => std::future::pending().await,
        }
    }
}

/// The head of an answer whose end is the end of the connection.
pub(crate) fn head(status: u16, more: &str) -> Step {
    Step::Send(
        format!("HTTP/1.1 {status} X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n{more}\r\n")
            .into(),
    )
}

pub(crate) fn event(event: &Value) -> Step {
    Step::Send(format!("data: {event}\n\n").into())
}
