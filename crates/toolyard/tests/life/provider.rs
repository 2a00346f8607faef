//! A scripted provider of models on this machine.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};

/// Answers each request with events, and keeps the bodies.
pub(crate) struct Provider {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Provider {
    /// The same events for every request.
    pub(crate) fn start(events: Vec<Value>) -> Self {
        Self::scripted(move |_| events.clone())
    }

    /// What this function answers.
    pub(crate) fn scripted(script: impl Fn(&Value) -> Vec<Value> + Send + Sync + 'static) -> Self {
        let script: Arc<Script> = Arc::new(script);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let bodies = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, bodies) = (script.clone(), bodies.clone());
                std::thread::spawn(move || answer(stream.unwrap(), &*script, &bodies));
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().clone()
    }
}

/// A provider that never answers, and counts the connections that clients have opened and closed.
#[derive(Clone)]
pub(crate) struct Silent {
    pub(crate) url: String,
    asked: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Silent {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let silent = Self { url, asked: Arc::default(), closed: Arc::default() };
        let counted = silent.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let counted = counted.clone();
                std::thread::spawn(move || counted.hold(stream.unwrap()));
            }
        });
        silent
    }

    fn hold(&self, mut stream: TcpStream) {
        request_of(&mut stream);
        self.asked.fetch_add(1, Ordering::SeqCst);
        // The end of the connection, in either way.
        let _ = stream.read(&mut [0]);
        self.closed.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }
}

/// A server that refuses every request, with the status in its path (`/401/…`) and a text that quotes the whole head of
/// the request. It keeps these heads.
pub(crate) struct Refusing {
    pub(crate) url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Refusing {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = heads.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = request_of(&mut stream);
                let head = request.split("\r\n\r\n").next().unwrap_or_default().to_owned();
                let status = head.split('/').nth(1).unwrap_or_default().to_owned();
                let body = json!({ "error": { "message": format!("refused: {head}") } }).to_string();
                kept.lock().push(head);
                let length = body.len();
                let head = "content-type: application/json\r\nconnection: close\r\n";
                // The client may have gone.
                let _ =
                    write!(stream, "HTTP/1.1 {status} No\r\n{head}content-length: {length}\r\n\r\n{body}");
            }
        });
        Self { url, heads }
    }

    /// The heads of requests to paths that begin so.
    pub(crate) fn heads(&self, path: &str) -> Vec<String> {
        let fits = |head: &&String| head.split(' ').nth(1).is_some_and(|own| own.starts_with(path));
        self.heads.lock().iter().filter(fits).cloned().collect()
    }
}

/// An Ollama that gives every text a vector of its length, and counts the pieces of code among them.
pub(crate) struct Embeddings {
    pub(crate) url: String,
    asked: Arc<AtomicUsize>,
    passages: Arc<AtomicUsize>,
    /// While this is locked, no request is answered.
    pub(crate) gate: Arc<Mutex<()>>,
}

impl Embeddings {
    /// What a nomic model gets in front of a piece of code.
    const PASSAGE: &str = "search_document: ";

    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (passages, gate): (Arc<AtomicUsize>, Arc<Mutex<()>>) = Default::default();
        let asked = Arc::<AtomicUsize>::default();
        let (counted, closed, requests) = (passages.clone(), gate.clone(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                requests.fetch_add(1, Ordering::SeqCst);
                let (counted, closed) = (counted.clone(), closed.clone());
                std::thread::spawn(move || embed(stream.unwrap(), &counted, &closed));
            }
        });
        Self { url, asked, passages, gate }
    }

    /// How many requests were received so far, with questions.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// How many pieces of code were received so far.
    pub(crate) fn passages(&self) -> usize {
        self.passages.load(Ordering::SeqCst)
    }
}

fn embed(mut stream: TcpStream, counted: &AtomicUsize, closed: &Mutex<()>) {
    let request = request_of(&mut stream);
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let texts: Vec<&str> =
        body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let passages = texts.iter().filter(|text| text.starts_with(Embeddings::PASSAGE)).count();
    counted.fetch_add(passages, Ordering::SeqCst);
    drop(closed.lock());
    let vectors: Vec<[usize; 2]> = texts.iter().map(|text| [text.len(), 100]).collect();
    let body = json!({ "embeddings": vectors }).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    // The client may have gone.
    let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
}

type Script = dyn Fn(&Value) -> Vec<Value> + Send + Sync;

/// The text of a whole request.
pub(crate) fn request_of(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole(&request) {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the request broke off");
        request.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(request).unwrap()
}

fn answer(mut stream: TcpStream, script: &Script, bodies: &Mutex<Vec<Value>>) {
    let request = request_of(&mut stream);
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let events = script(&body);
    bodies.lock().push(body);
    let body: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let body = body.concat();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    // The client may have gone.
    let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    length.is_none_or(|length: usize| request.len() >= head.len() + 4 + length)
}

/// An answer of Gemini.
pub(crate) fn gemini(text: &str) -> Vec<Value> {
    vec![json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] }, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 100, "candidatesTokenCount": 20 },
    })]
}

/// An answer of a server with the chat completions of OpenAI.
pub(crate) fn compatible(text: &str) -> Vec<Value> {
    vec![json!({ "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": "stop" }] })]
}

/// An answer of OpenAI's Responses.
pub(crate) fn openai(text: &str) -> Vec<Value> {
    vec![
        json!({ "type": "response.output_text.delta", "delta": text }),
        json!({ "type": "response.completed", "response": {
            "status": "completed", "usage": { "input_tokens": 100, "output_tokens": 20 },
        } }),
    ]
}
