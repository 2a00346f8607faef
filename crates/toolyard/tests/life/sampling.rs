//! An upstream that asks the client's model, with clients that have none: a model of the config answers.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::http;
use crate::yard::Yard;

/// A model with the chat completions of OpenAI. Each body that it gets is sent on.
fn model() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            let mut buffer = [0; 4096];
            while !is_whole(&request) {
                let count = stream.read(&mut buffer).unwrap();
                request.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
            }
            let _ = sender.send(request.split_once("\r\n\r\n").unwrap().1.to_owned());
            let chunk =
                json!({ "choices": [{ "index": 0, "delta": { "content": "42" }, "finish_reason": "stop" }] });
            let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
            let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
        }
    });
    (format!("http://{address}/v1"), bodies)
}

fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    length.is_none_or(|length: usize| body.len() >= length)
}

fn yard(sampling: &str, url: &str) -> Yard {
    let yard = Yard::new(&[]);
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/life/sampler.py");
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n\
         [upstreams.sampler]\ncommand = \"python3\"\nargs = [\"{server}\"]\n{sampling}\n\
         [packs.models.providers.local]\nkind = \"compatible\"\nbase_url = \"{url}\"\nkey = \"a-secret-key\"\n"
    ));
    yard
}

fn think(url: &str, times: u32) -> String {
    let call = json!({ "name": "sampler__think", "arguments": { "times": times } });
    let authorization = [("authorization", "Bearer user")];
    let message = http::read(http::modern_with(url, &authorization, "tools/call", call)).message();
    let text = message["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[test]
fn a_model_answers_for_clients_that_cannot_sample_within_its_budget() {
    let (url, bodies) = model();
    let yard = yard("sampling = \"model:local/small\"\nsampling_tokens = 50\nsampling_per_call = 2", &url);
    let gateway = yard.start();
    assert_eq!(think(gateway.url(), 1), "42 by small");
    let asked: Value = serde_json::from_str(&bodies.recv().unwrap()).unwrap();
    assert_eq!((&asked["model"], &asked["max_tokens"]), (&json!("small"), &json!(50)), "{asked}");
    assert!(asked["messages"].to_string().contains("a secret prompt"), "{asked}");
    let beyond = think(gateway.url(), 3);
    assert!(beyond.starts_with("42 by small; 42 by small; error: ") && beyond.contains("limit"), "{beyond}");
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let log = gateway.wait();
    let mut written = log.into_bytes();
    collect(yard.folder(), &mut written);
    let written = String::from_utf8_lossy(&written);
    for secret in ["a-secret-key", "a secret prompt", "Be brief."] {
        assert!(!written.contains(secret), "`{secret}` was written");
    }
}

/// Everything in the files below a folder, except the config.
fn collect(folder: &Path, bytes: &mut Vec<u8>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, bytes);
        } else if path.is_file() && path.file_name().is_some_and(|name| name != "config.toml") {
            bytes.extend(std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn without_the_setting_no_model_is_asked() {
    let (url, bodies) = model();
    let yard = yard("", &url);
    let gateway = yard.start();
    let refused = think(gateway.url(), 1);
    assert!(refused.starts_with("error: "), "{refused}");
    assert!(bodies.try_recv().is_err());
}
