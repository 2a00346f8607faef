//! A mock server for the services: it answers from a script and records the requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method and target, such as `GET /artist?query=x`.
    pub(crate) line: String,
    /// Lower case, one below the other.
    pub(crate) headers: String,
    pub(crate) body: String,
    pub(crate) at: Instant,
}

/// Status, headers, body.
pub(crate) struct Answer(pub(crate) u16, pub(crate) String, pub(crate) Vec<u8>);

impl Answer {
    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self(200, "content-type: application/json\r\n".into(), value.to_string().into_bytes())
    }

    pub(crate) fn status(status: u16, headers: &str) -> Self {
        Self(status, headers.into(), b"{}".to_vec())
    }
}

pub(crate) struct Mock {
    pub(crate) url: String,
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    asked: Mutex<Vec<Asked>>,
    answers: Mutex<VecDeque<Answer>>,
}

impl Mock {
    /// Gives these answers in this order, and 500 after them.
    pub(crate) async fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared =
            Arc::new(Shared { answers: Mutex::new(answers.into_iter().collect()), ..Shared::default() });
        let mut task = JoinSet::new();
        let serving = shared.clone();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, serving.clone()));
            }
        });
        Self { url, shared, _task: task }
    }

    pub(crate) fn answer(&self, answer: Answer) {
        self.shared.answers.lock().push_back(answer);
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if read.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let at = Instant::now();
        let (line, headers) = head.split_once("\r\n").unwrap();
        let headers = headers.to_lowercase();
        let length =
            headers.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        read.read_exact(&mut body).await.unwrap();
        let line = line.strip_suffix(" HTTP/1.1").unwrap().to_owned();
        shared.asked.lock().push(Asked { line, headers, body: String::from_utf8(body).unwrap(), at });
        let Answer(status, headers, body) =
            shared.answers.lock().pop_front().unwrap_or_else(|| Answer::status(500, ""));
        let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n", body.len());
        // The client may have disconnected.
        if write.write_all(&[head.as_bytes(), &body].concat()).await.is_err() {
            return;
        }
    }
}
