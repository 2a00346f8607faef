//! A client that sends many requests, and reads one byte of the answers a second.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::wire::{Era, Transport, end_session, modern_headers, open_sse, post, read_head};
use crate::yard::Yard;

const REQUESTS: usize = 3_000;
const PACE: Duration = Duration::from_secs(1);

/// It leaves when it is dropped.
pub(crate) struct Slow {
    read: Arc<AtomicUsize>,
    hang_up: Box<dyn FnMut()>,
    /// Dropped to stop the reader.
    _stays: Sender<()>,
}

impl Slow {
    pub(crate) fn connect(yard: &Yard, transport: Transport, era: Era) -> Self {
        let asks = requests(era);
        match transport {
            Transport::Tcp => {
                let stream = TcpStream::connect(&yard.tcp).unwrap();
                let (read, end) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
                Self::begin(read, lines(stream, asks), move || drop(end.shutdown(Shutdown::Both)))
            }
            Transport::Unix => {
                let stream = UnixStream::connect(&yard.unix).unwrap();
                let (read, end) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
                Self::begin(read, lines(stream, asks), move || drop(end.shutdown(Shutdown::Both)))
            }
            Transport::Stdio => {
                let mut shim = yard.shim().stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
                let (stdin, stdout) = (shim.stdin.take().unwrap(), shim.stdout.take().unwrap());
                Self::begin(stdout, lines(stdin, asks), move || {
                    let _ = shim.kill();
                    let _ = shim.wait();
                })
            }
            Transport::Http => {
                let stream = TcpStream::connect(&yard.http).unwrap();
                let (read, end) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
                let session = (era == Era::Legacy).then(|| session(&yard.http, &asks[0]));
                let (address, opened) = (yard.http.clone(), session.clone());
                Self::begin(read, posts(stream, yard.http.clone(), session, asks), move || {
                    drop(end.shutdown(Shutdown::Both));
                    if let Some(session) = &opened {
                        end_session(&address, session);
                    }
                })
            }
            Transport::Sse => {
                let ((read, path), address) = (open_sse(&yard.http), yard.http.clone());
                let end = read.get_ref().try_clone().unwrap();
                let ask = move || asks.iter().all(|ask| is_taken(&address, &path, ask));
                Self::begin(read, ask, move || drop(end.shutdown(Shutdown::Both)))
            }
        }
    }

    /// Sends as fast as it can, and reads at its own pace.
    fn begin(
        mut from: impl Read + Send + 'static,
        ask: impl FnOnce() -> bool + Send + 'static,
        hang_up: impl FnMut() + 'static,
    ) -> Self {
        let read = Arc::new(AtomicUsize::new(0));
        let count = read.clone();
        thread::spawn(ask);
        let (stays, left) = channel();
        thread::spawn(move || {
            while from.read_exact(&mut [0]).is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
                if left.recv_timeout(PACE) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        });
        Self { read, hang_up: Box::new(hang_up), _stays: stays }
    }

    /// How many bytes it has read.
    pub(crate) fn bytes(&self) -> usize {
        self.read.load(Ordering::Relaxed)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        (self.hang_up)();
    }
}

fn requests(era: Era) -> Vec<Value> {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let info = json!({ "name": "t", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    let mut requests = Vec::new();
    let params = match era {
        Era::Modern => json!({ "_meta": meta }),
        Era::Legacy => {
            requests
                .push(json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello }));
            requests.push(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
            json!({})
        }
    };
    let list = |id| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params });
    requests.extend((0..REQUESTS).map(list));
    requests
}

/// True if everything was written.
fn lines(mut write: impl Write, asks: Vec<Value>) -> impl FnOnce() -> bool {
    move || asks.iter().all(|ask| writeln!(write, "{ask}").is_ok())
}

/// One after the other on one connection, without waiting for answers.
fn posts(
    mut stream: TcpStream,
    address: String,
    session: Option<String>,
    asks: Vec<Value>,
) -> impl FnOnce() -> bool {
    let asks = asks.into_iter().skip(usize::from(session.is_some()));
    move || {
        asks.map(|ask| ask.to_string()).all(|ask| {
            let headers = session.clone().unwrap_or_else(|| modern_headers(ask.as_bytes()));
            let head = format!(
                "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
                 accept: application/json, text/event-stream\r\ncontent-length: {}\r\n{headers}\r\n",
                ask.len()
            );
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(ask.as_bytes())).is_ok()
        })
    }
}

fn session(address: &str, hello: &Value) -> String {
    let mut read = BufReader::new(post(address, "/mcp", "", hello.to_string().as_bytes()));
    let (_, id) = read_head(&mut read, "mcp-session-id");
    format!("mcp-session-id: {}\r\nmcp-protocol-version: 2025-11-25\r\n", id.unwrap())
}

/// Whether a message that is posted for a stream is still wanted.
fn is_taken(address: &str, path: &str, ask: &Value) -> bool {
    let mut read = BufReader::new(post(address, path, "", ask.to_string().as_bytes()));
    read.fill_buf().is_ok() && read_head(&mut read, "").0 == 202
}
