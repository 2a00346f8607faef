//! Streamable HTTP, where every answer is an event stream, and HTTP+SSE, where one stream is for all.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::Value;

use super::{DEAF, Out, Rogue};

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const NOT_HERE: &str = "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n";

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Web {
    Http,
    Sse,
}

/// The open streams of HTTP+SSE, by session.
type Streams = Arc<Mutex<HashMap<String, TcpStream>>>;

struct Events {
    stream: TcpStream,
    is_inside: bool,
}

impl Events {
    fn put(&mut self, bytes: &[u8]) {
        // The caller may be gone.
        let _ = self.stream.write_all(bytes);
    }
}

impl Out for Events {
    fn say(&mut self, message: &[u8]) {
        self.begin(message);
        self.put(b"\n\n");
        self.is_inside = false;
    }

    fn begin(&mut self, part: &[u8]) {
        if !std::mem::replace(&mut self.is_inside, true) {
            self.put(b"data: ");
        }
        self.put(part);
    }

    fn hang_up(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
}

pub fn serve_web(rogue: &Rogue, web: Web, listener: &TcpListener) {
    let streams = Streams::default();
    for stream in listener.incoming().flatten() {
        let (rogue, streams) = (rogue.clone(), streams.clone());
        thread::spawn(move || serve(&rogue, web, &streams, stream));
    }
}

fn serve(rogue: &Rogue, web: Web, streams: &Streams, mut stream: TcpStream) -> Option<()> {
    let mut read = BufReader::new(stream.try_clone().ok()?);
    loop {
        let head = read_head(&mut read)?;
        // One that is deaf does not even read what it is asked.
        if rogue.fault == "deaf" && head.1 > 1024 * 1024 {
            thread::sleep(DEAF);
        }
        let request = read_body(&mut read, head)?;
        match (web, request.method.as_str()) {
            (Web::Sse, "GET") => return open(streams, stream),
            (Web::Sse, "POST") => {
                stream.write_all(ACCEPTED.as_bytes()).ok()?;
                let session = request.path.rsplit('=').next()?.to_owned();
                let stream = lock(streams).get(&session)?.try_clone().ok()?;
                let out = &mut Events { stream, is_inside: false };
                rogue.take(&serde_json::from_slice(&request.body).ok()?, out);
                return Some(());
            }
            (Web::Http, "POST") => {
                let message: Value = serde_json::from_slice(&request.body).ok()?;
                if message.get("id").is_some() && message.get("method").is_some() {
                    return answer(rogue, &message, stream);
                }
                return stream.write_all(ACCEPTED.as_bytes()).ok();
            }
            _ => stream.write_all(NOT_HERE.as_bytes()).ok()?,
        }
    }
}

fn lock(streams: &Streams) -> parking_lot::MutexGuard<'_, HashMap<String, TcpStream>> {
    streams.lock()
}

fn open(streams: &Streams, mut stream: TcpStream) -> Option<()> {
    let mut open = lock(streams);
    let session = open.len().to_string();
    write!(stream, "{EVENTS}\r\nevent: endpoint\ndata: /post?session={session}\n\n").ok()?;
    open.insert(session, stream);
    Some(())
}

/// The end of the connection is the end of the answer; one that hangs, and a subscription, never end.
fn answer(rogue: &Rogue, message: &Value, mut stream: TcpStream) -> Option<()> {
    let is_first = message["method"] == "initialize";
    let session = if is_first { "mcp-session-id: one\r\n" } else { "" };
    write!(stream, "{EVENTS}{session}\r\n").ok()?;
    let mut out = Events { stream, is_inside: false };
    rogue.take(message, &mut out);
    let is_calm = message["params"]["arguments"]["calm"] == true;
    let hangs = rogue.fault == "hangs" && message["method"] == "tools/call" && !is_calm;
    if hangs || message["method"] == "subscriptions/listen" {
        // Until the other side closes.
        let _ = out.stream.read(&mut [0]);
    }
    Some(())
}

/// Method, length of the body, and path.
type Head = (String, usize, String);

fn read_head(read: &mut impl BufRead) -> Option<Head> {
    let mut line = String::new();
    read.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        line.clear();
        read.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?;
            }
            Some(_) => {}
            None => return Some((method, length, path)),
        }
    }
}

fn read_body(read: &mut impl Read, (method, length, path): Head) -> Option<Request> {
    let mut body = vec![0; length];
    read.read_exact(&mut body).ok()?;
    Some(Request { method, path, body })
}
