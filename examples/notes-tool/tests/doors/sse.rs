//! A client of HTTP+SSE: one stream of events for all answers, and an address to post to.
//! It sends HTTP/1.0 requests, so that the stream comes without chunks.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use toolyard_proto::{Raw, Revision};
use toolyard_tool::{Door, Server};

use super::Example;
use super::clients::{Client, Later, initialize, outcome, params_of, reply_to};

struct Events {
    address: SocketAddr,
    /// Where to post.
    path: String,
    stream: BufReader<TcpStream>,
    sent: u64,
    _server: Server,
}

pub(crate) fn sse(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let server = Server::start((example.tools)(), [Door::Http("127.0.0.1:0".into())]).await.unwrap();
        let address = server.addresses()[0];
        let mut stream = TcpStream::connect(address).await.unwrap();
        let ask = format!("GET /sse HTTP/1.0\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n");
        stream.write_all(ask.as_bytes()).await.unwrap();
        let (path, stream) = (String::new(), BufReader::new(stream));
        let mut client = Events { address, path, stream, sent: 0, _server: server };
        client.path = client.data().await;
        let _ = client.exchange("initialize", &initialize(revision).into()).await;
        Box::new(client) as Box<dyn Client>
    })
}

impl Events {
    /// The data of the next event.
    async fn data(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.stream.read_line(&mut line).await.unwrap() > 0, "the stream ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return data.trim_end().to_owned();
            }
        }
    }

    async fn post(&self, message: &Value) {
        let body = message.to_string();
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.path,
            self.address,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    }

    async fn exchange(&mut self, method: &str, params: &Raw) -> Raw {
        self.sent += 1;
        let id = self.sent;
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let message = Raw::parse(self.data().await).unwrap();
            if let Some(reply) = reply_to(&message) {
                self.post(&reply).await;
            } else if message.member("id").is_some_and(|found| found.read::<u64>().unwrap() == id) {
                return outcome(&message);
            }
        }
    }
}

impl Client for Events {
    fn call<'a>(&'a mut self, method: &'a str, params: Value) -> Later<'a, Raw> {
        let params = params_of(Revision::V2025_11_25, &params);
        Box::pin(async move { self.exchange(method, &params).await })
    }
}
