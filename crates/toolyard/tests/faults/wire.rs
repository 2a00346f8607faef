//! One client over any transport: raw bytes go out, messages come in.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::yard::Yard;

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Tcp,
    Unix,
    Http,
    Sse,
}

impl Transport {
    pub(crate) const ALL: [Self; 5] = [Self::Stdio, Self::Tcp, Self::Unix, Self::Http, Self::Sse];

    /// Whether all messages share one stream, so that ids must differ and a bad line can end it.
    pub(crate) fn is_lines(self) -> bool {
        matches!(self, Self::Stdio | Self::Tcp | Self::Unix)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A connected client. Dropped, it disconnects, and ends its session if it has one.
pub(crate) struct Wire {
    ends: Ends,
    session: Session,
    received: Receiver<Value>,
    pub(crate) era: Era,
}

impl Wire {
    /// Connects and, for a legacy client, does the handshake.
    pub(crate) fn connect(yard: &Yard, transport: Transport, era: Era) -> Self {
        let (sender, received) = channel();
        let session = Session::default();
        let ends = match transport {
            Transport::Tcp => over_tcp(TcpStream::connect(&yard.tcp).unwrap(), sender),
            Transport::Unix => over_unix(UnixStream::connect(&yard.unix).unwrap(), sender),
            Transport::Stdio => over_stdio(yard.shim(), sender),
            Transport::Http => over_http(yard.http.clone(), era, sender, session.clone()),
            Transport::Sse => over_sse(yard.http.clone(), sender),
        };
        let mut wire = Self { ends, session, received, era };
        if era == Era::Legacy {
            let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
            wire.send(
                json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params })
                    .to_string(),
            );
            assert_eq!(wire.next().unwrap()["id"], "hello");
            wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        }
        wire
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        (self.ends.0)(bytes.as_ref());
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Value> {
        match self.received.recv_timeout(PATIENCE) {
            Ok(message) => Some(message),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("silence for {PATIENCE:?}"),
        }
    }

    /// A request in the form of the client's era; `id` is raw JSON.
    pub(crate) fn request(&self, id: &str, method: &str, mut params: Value) -> String {
        if self.era == Era::Modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    }
}

impl Wire {
    /// Closes its connections, whatever is under way.
    pub(crate) fn hang_up(&mut self) {
        (self.ends.1)();
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.hang_up();
        if let Some((address, headers)) = self.session.lock().take() {
            end_session(&address, &headers);
        }
    }
}

pub(crate) fn end_session(address: &str, headers: &str) {
    let head = format!("DELETE /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.read_to_end(&mut Vec::new()));
}

/// The address and the headers of a session, where a client has one that outlives its connections.
type Session = Arc<Mutex<Option<(String, String)>>>;

type SendLine = Box<dyn FnMut(&[u8])>;
type HangUp = Box<dyn FnMut()>;
type Ends = (SendLine, HangUp);

fn read_lines(read: impl Read + Send + 'static, received: Sender<Value>) {
    thread::spawn(move || {
        for line in BufReader::new(read).lines().map_while(Result::ok) {
            let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "not a message": line }));
            if received.send(message).is_err() {
                return;
            }
        }
    });
}

/// The other side may have closed already; that is ignored.
fn write_line(mut write: impl Write, bytes: &[u8]) {
    let _ = write.write_all(bytes).and_then(|()| write.write_all(b"\n")).and_then(|()| write.flush());
}

fn over_tcp(stream: TcpStream, received: Sender<Value>) -> Ends {
    read_lines(stream.try_clone().unwrap(), received);
    let end = stream.try_clone().unwrap();
    (Box::new(move |bytes| write_line(&stream, bytes)), Box::new(move || drop(end.shutdown(Shutdown::Both))))
}

fn over_unix(stream: UnixStream, received: Sender<Value>) -> Ends {
    read_lines(stream.try_clone().unwrap(), received);
    let end = stream.try_clone().unwrap();
    (Box::new(move |bytes| write_line(&stream, bytes)), Box::new(move || drop(end.shutdown(Shutdown::Both))))
}

/// Killed when the client hangs up or is dropped.
struct Shim(Child);

impl Drop for Shim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn over_stdio(mut command: std::process::Command, received: Sender<Value>) -> Ends {
    let mut shim = Shim(command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let (stdin, stdout) = (shim.0.stdin.take().unwrap(), shim.0.stdout.take().unwrap());
    read_lines(stdout, received);
    let mut shim = Some(shim);
    (Box::new(move |bytes| write_line(&stdin, bytes)), Box::new(move || drop(shim.take())))
}

/// A POST whose answer is still to be read.
pub(crate) fn post(address: &str, path: &str, headers: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    // A body that is too large is refused before it has been read.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    stream
}

/// Reads the head: the status, and the value of a header.
pub(crate) fn read_head(read: &mut impl BufRead, wanted: &str) -> (u16, Option<String>) {
    let (mut status, mut found) = (0, None);
    let mut line = String::new();
    while read.read_line(&mut line).is_ok_and(|length| length > 0) && line.trim_end() != "" {
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest[..3].parse().unwrap();
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case(wanted)
        {
            found = Some(value.trim_end().to_owned());
        }
        line.clear();
    }
    (status, found)
}

/// Sends every message in a body (JSON or events, chunked or not); if there is none, the status of the refusal.
fn read_body(read: impl BufRead, status: u16, received: &Sender<Value>) {
    let mut found = false;
    for line in read.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let text = line.trim_end();
        let text = text.strip_prefix("data: ").unwrap_or(text);
        if text.starts_with('{')
            && let Ok(message) = serde_json::from_str::<Value>(text)
        {
            found = true;
            if received.send(message).is_err() {
                return;
            }
        }
    }
    if !found && status != 202 {
        let _ = received.send(json!({ "status": status }));
    }
}

fn over_http(address: String, era: Era, received: Sender<Value>, opened: Session) -> Ends {
    let mut session = String::new();
    let streams = Arc::new(Mutex::new(Vec::<TcpStream>::new()));
    let open = streams.clone();
    let send = move |bytes: &[u8]| {
        let headers = match era {
            Era::Legacy => session.clone(),
            Era::Modern => modern_headers(bytes),
        };
        let stream = post(&address, "/mcp", &headers, bytes);
        open.lock().push(stream.try_clone().unwrap());
        let mut read = BufReader::new(stream);
        if era == Era::Legacy && session.is_empty() {
            let (status, id) = read_head(&mut read, "mcp-session-id");
            session =
                format!("mcp-session-id: {}\r\nmcp-protocol-version: 2025-11-25\r\n", id.unwrap_or_default());
            *opened.lock() = Some((address.clone(), session.clone()));
            return read_body(read, status, &received);
        }
        let received = received.clone();
        thread::spawn(move || {
            let (status, _) = read_head(&mut read, "");
            read_body(read, status, &received);
        });
    };
    let hang_up = move || streams.lock().drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    (Box::new(send), Box::new(hang_up))
}

/// As a modern client derives them from the body, where it can be read.
pub(crate) fn modern_headers(bytes: &[u8]) -> String {
    let message: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let mut headers = "mcp-protocol-version: 2026-07-28\r\n".to_owned();
    for (header, value) in [("mcp-method", &message["method"]), ("mcp-name", &message["params"]["name"])] {
        if let Some(value) = value.as_str() {
            headers.extend([header, ": ", value, "\r\n"]);
        }
    }
    headers
}

/// The stream of a client of HTTP+SSE, and where it posts to.
pub(crate) fn open_sse(address: &str) -> (BufReader<TcpStream>, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /sse HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n").unwrap();
    let mut read = BufReader::new(stream);
    let (status, _) = read_head(&mut read, "");
    assert_eq!(status, 200);
    let mut line = String::new();
    while !line.starts_with("data: ") {
        line.clear();
        read.read_line(&mut line).unwrap();
    }
    (read, line.trim_end().trim_start_matches("data: ").to_owned())
}

fn over_sse(address: String, received: Sender<Value>) -> Ends {
    let (read, path) = open_sse(&address);
    let end = read.get_ref().try_clone().unwrap();
    let events = received.clone();
    thread::spawn(move || read_body(read, 202, &events));
    let send = move |bytes: &[u8]| {
        let mut read = BufReader::new(post(&address, &path, "", bytes));
        let (status, _) = read_head(&mut read, "");
        if status != 202 {
            read_body(read, status, &received);
        }
    };
    (Box::new(send), Box::new(move || drop(end.shutdown(Shutdown::Both))))
}
