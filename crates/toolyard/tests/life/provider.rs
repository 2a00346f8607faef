//! A scripted provider of models on this machine.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

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
        self.asked.lock().unwrap().clone()
    }
}

type Script = dyn Fn(&Value) -> Vec<Value> + Send + Sync;

fn answer(mut stream: TcpStream, script: &Script, bodies: &Mutex<Vec<Value>>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole(&request) {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the request broke off");
        request.extend_from_slice(&buffer[..count]);
    }
    let request = String::from_utf8(request).unwrap();
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let events = script(&body);
    bodies.lock().unwrap().push(body);
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
