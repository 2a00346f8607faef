//! Services of each kind, played by a local server that checks what it gets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::*;

/// Answers requests with one script, and passes on what it received: path, headers and body.
pub(crate) struct Service {
    pub(crate) address: String,
    pub(crate) received: mpsc::Receiver<(String, String, Value)>,
}

impl Service {
    pub(crate) fn start(status: &'static str, answer: impl Fn(&Value) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, received) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (path, headers, body) = read(&stream);
                let text = answer(&body);
                if sender.send((path, headers, body)).is_err() {
                    return;
                }
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    text.len()
                );
                let _ = (&stream).write_all(format!("{head}{text}").as_bytes());
            }
        });
        Self { address, received }
    }
}

fn read(stream: &TcpStream) -> (String, String, Value) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut headers) = (String::new(), String::new());
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        headers.push_str(&line.to_lowercase());
    }
    let length = headers.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.trim().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    (first.split(' ').nth(1).unwrap().to_owned(), headers, serde_json::from_slice(&body).unwrap())
}

fn encoder(config: Value) -> Encoder {
    Encoder::configured(&serde_json::from_value(config).unwrap(), "").unwrap()
}

fn passages() -> [Passage; 2] {
    ["one", "two"].map(|name| Passage { name: name.to_owned(), text: format!("fn {name}()") })
}

#[tokio::test]
async fn each_provider_gets_its_own_request_and_its_answer_is_read() {
    let vectors = json!([[3.0, 4.0], [0.0, 2.0]]);
    let cases = [
        ("ollama", json!({ "embeddings": vectors }), "/api/embed", "/input"),
        (
            "openai",
            json!({ "data": [{ "index": 1, "embedding": [0.0, 2.0] }, { "index": 0, "embedding": [3.0, 4.0] }] }),
            "/embeddings",
            "/input",
        ),
        (
            "gemini",
            json!({ "embeddings": [{ "values": [3.0, 4.0] }, { "values": [0.0, 2.0] }] }),
            "/models/m:batchEmbedContents",
            "/requests",
        ),
        ("huggingface", vectors.clone(), "/", "/inputs"),
    ];
    for (provider, answer, path, texts) in cases {
        let service = Service::start("200 OK", move |_| answer.to_string());
        let config =
            json!({ "provider": provider, "model": "m", "base_url": service.address, "key": "geheim" });
        let encoder = encoder(config);
        assert_eq!(encoder.passages(&passages()).await.unwrap(), [[0.6, 0.8], [0.0, 1.0]], "{provider}");
        let (got_path, headers, body) = service.received.recv().unwrap();
        assert_eq!((got_path.as_str(), body.pointer(texts).unwrap().as_array().unwrap().len()), (path, 2));
        let header =
            if provider == "gemini" { "x-goog-api-key: geheim" } else { "authorization: bearer geheim" };
        assert!(headers.contains(header), "{headers}");
        assert!(!format!("{encoder:?}").contains("geheim"));
    }
}

#[tokio::test]
async fn nomic_models_get_their_prefixes() {
    let service = Service::start("200 OK", |_| json!({ "embeddings": [[1.0]] }).to_string());
    let config = json!({ "provider": "ollama", "model": "nomic-embed-text", "base_url": service.address });
    encoder(config).query("open a file").await.unwrap();
    let (_, _, body) = service.received.recv().unwrap();
    assert_eq!(body["input"], json!(["search_query: open a file"]));
}

#[tokio::test]
async fn many_passages_are_sent_in_batches_in_order() {
    let service = Service::start("200 OK", |body| {
        let texts = body["input"].as_array().unwrap();
        let number = |text: &Value| text.as_str().unwrap().lines().next().unwrap().parse::<f32>().unwrap();
        let vectors: Vec<Value> = texts.iter().map(|text| json!([number(text), 1000.0])).collect();
        json!({ "embeddings": vectors }).to_string()
    });
    let config = json!({ "provider": "ollama", "model": "m", "base_url": service.address });
    let many: Vec<Passage> =
        (0..70).map(|n| Passage { name: n.to_string(), text: "x".repeat(20_000) }).collect();
    let vectors = encoder(config).passages(&many).await.unwrap();
    assert_eq!(vectors.len(), 70);
    assert!(vectors.windows(2).all(|pair| pair[0][0] < pair[1][0]));
    let sizes: Vec<usize> =
        service.received.try_iter().map(|(_, _, body)| body["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [32, 32, 6]);
}

#[tokio::test]
async fn a_failing_or_wrong_service_is_named_with_the_reason() {
    for (status, answer, reason) in [
        ("429 Too Many Requests", "{}", "it answered with status 429 Too Many Requests"),
        ("200 OK", "<html>", "its answer is not JSON"),
        ("200 OK", r#"{"error":"x"}"#, "its answer has no vectors"),
        ("200 OK", r#"{"embeddings":[[1.0]]}"#, "one vector for each text"),
        ("200 OK", r#"{"embeddings":[[1.0],["a"]]}"#, "its answer has no vectors"),
    ] {
        let service = Service::start(status, move |_| answer.to_owned());
        let config = json!({ "provider": "ollama", "model": "m", "base_url": service.address });
        let error = encoder(config).passages(&passages()).await.unwrap_err();
        assert!(error.message().contains(reason), "{}", error.message());
    }
    let nowhere = json!({ "provider": "ollama", "model": "m", "base_url": "http://127.0.0.1:1" });
    let error = encoder(nowhere).query("x").await.unwrap_err();
    assert!(error.message().starts_with("cannot get vectors of `m` from http://127.0.0.1:1"));
}
