//! Servers that are slow to answer which era they speak: what their silence means, and for how long.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use toolyard_link::{EraPin, SocketSpec, Target, Timeouts, UpstreamTarget, connect};
use toolyard_model::{Connected, Scope};
use toolyard_proto::Era;

use crate::support::{offer, soon};

/// What a server does with the question which era it speaks.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Both eras, but on its first connection it sends nothing before the legacy handshake.
    LateOnce,
    /// Both eras, and every connection is slow.
    Slow,
    /// It never answers it.
    Silent,
    Refuses,
}

/// Longer than the probe may take, shorter than connecting may.
const SLOW: Duration = Duration::from_millis(400);

struct Server {
    target: UpstreamTarget,
    /// The methods asked on each connection.
    asked: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Server {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = SocketSpec::Tcp(listener.local_addr().unwrap().to_string());
        let timeouts = Timeouts { probe: Duration::from_millis(100), ..Timeouts::default() };
        let target =
            UpstreamTarget { name: "s".into(), target: Target::Socket(socket), era: EraPin::Auto, timeouts };
        let asked = Arc::new(Mutex::new(Vec::new()));
        let book = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = {
                    let mut book = book.lock();
                    book.push(Vec::new());
                    book.len() - 1
                };
                tokio::spawn(serve(manner, number, stream, book.clone()));
            }
        });
        Self { target, asked }
    }

    async fn connect(&self, remembered: Option<Era>) -> Connected {
        let scope = Scope::new();
        soon(connect(&self.target, remembered, &offer(), &scope)).await.unwrap()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().iter().map(|methods| methods.join(" ")).collect()
    }
}

async fn serve(manner: Manner, number: usize, stream: TcpStream, book: Arc<Mutex<Vec<Vec<String>>>>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut held: Option<Value> = None;
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        book.lock()[number].push(method.clone());
        let mut answers = Vec::new();
        match (method.as_str(), manner) {
            ("server/discover", Manner::LateOnce) if number == 0 => held = Some(message["id"].clone()),
            ("server/discover", Manner::Silent) => {}
            ("server/discover", Manner::Refuses) => {
                let error = json!({ "code": -32601, "message": "no" });
                answers.push(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
            }
            ("server/discover", _) => {
                if manner == Manner::Slow {
                    tokio::time::sleep(SLOW).await;
                }
                answers.push(described(&message["id"]));
            }
            ("initialize", _) => {
                answers.extend(held.take().map(|id| described(&id)));
                let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
                answers.push(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
            }
            _ => {}
        }
        for answer in answers {
            write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    }
}

fn described(id: &Value) -> Value {
    let versions = ["2026-07-28", "2025-11-25"];
    let result = json!({ "resultType": "complete", "supportedVersions": versions, "capabilities": {} });
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

#[tokio::test]
async fn a_late_answer_still_counts_and_the_next_connection_is_opened_in_the_right_way() {
    let server = Server::start(Manner::LateOnce).await;
    let connected = server.connect(None).await;
    assert_eq!(connected.era(), Era::Modern);
    assert!(!connected.link.greeting().guessed);
    let first = "server/discover initialize notifications/initialized";
    assert_eq!(server.asked(), [first, "server/discover"]);
}

#[tokio::test]
async fn silence_is_taken_for_the_legacy_era_but_is_only_a_guess() {
    let server = Server::start(Manner::Silent).await;
    let connected = server.connect(None).await;
    assert_eq!(connected.era(), Era::Legacy);
    assert!(connected.link.greeting().guessed);
}

#[tokio::test]
async fn an_answer_settles_the_era() {
    let server = Server::start(Manner::Refuses).await;
    let connected = server.connect(None).await;
    assert_eq!((connected.era(), connected.link.greeting().guessed), (Era::Legacy, false));
}

#[tokio::test]
async fn a_server_that_was_modern_before_gets_the_time_to_answer_again() {
    let server = Server::start(Manner::Slow).await;
    let connected = server.connect(Some(Era::Modern)).await;
    assert_eq!(connected.era(), Era::Modern);
    assert_eq!(server.asked(), ["server/discover"]);
}
