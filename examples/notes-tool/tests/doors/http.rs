//! Clients that post each message: one connection per request, so that the answer ends with the connection. They send
//! HTTP/1.0 requests, so that streams come without chunks.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use toolyard_proto::{Method, Raw, Revision, modern};
use toolyard_tool::{Door, Server};

use super::Example;
use super::clients::{Client, Later, initialize, outcome, params_of, reply_to};

pub(crate) struct Http {
    address: SocketAddr,
    path: String,
    revision: Revision,
    session: Option<String>,
    /// What must live as long as the client.
    _keep: Box<dyn std::any::Any>,
}

pub(crate) fn http(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let server = Server::start((example.tools)(), [Door::Http("127.0.0.1:0".into())]).await.unwrap();
        let address = server.addresses()[0];
        Box::new(Http::open(address, "/mcp".into(), revision, server).await) as Box<dyn Client>
    })
}

impl Http {
    pub(crate) async fn open(
        address: SocketAddr,
        path: String,
        revision: Revision,
        keep: impl std::any::Any,
    ) -> Self {
        let mut client = Self { address, path, revision, session: None, _keep: Box::new(keep) };
        if !revision.is_modern() {
            let (head, _) = client.exchange("initialize", &initialize(revision).into()).await;
            let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
            client.session = Some(session.unwrap().to_owned());
        }
        client
    }

    /// The head and the response in the body.
    async fn exchange(&self, method: &str, params: &Raw) -> (String, Raw) {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let mut stream = self.post(&body, Some((method, params))).await;
        let head = head_of(&mut stream).await;
        if !head.contains("text/event-stream") {
            let mut body = String::new();
            stream.read_to_string(&mut body).await.unwrap();
            return (head, Raw::parse(body).unwrap());
        }
        loop {
            let mut line = String::new();
            assert!(stream.read_line(&mut line).await.unwrap() > 0, "the stream ended without an answer");
            let data = line.strip_prefix("data: ").map(str::trim_end).filter(|data| !data.is_empty());
            let Some(message) = data.map(|data| Raw::parse(data.to_owned()).unwrap()) else { continue };
            if let Some(reply) = reply_to(&message) {
                let answered = head_of(&mut self.post(&reply.to_string(), None).await).await;
                assert!(answered.contains(" 202 "), "{answered}");
            } else if message.member("id").is_some() {
                return (head, message);
            }
        }
    }

    /// Sends a message: a request of that method with those parameters, or a reply.
    async fn post(&self, body: &str, request: Option<(&str, &Raw)>) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = self.head(request, body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        BufReader::new(stream)
    }

    fn head(&self, request: Option<(&str, &Raw)>, length: usize) -> String {
        let mut head = format!(
            "POST {} HTTP/1.0\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {length}\r\nmcp-protocol-version: {}\r\n",
            self.path, self.address, self.revision
        );
        if let Some((method, params)) = request.filter(|_| self.revision.is_modern()) {
            write!(head, "mcp-method: {method}\r\n").unwrap();
            if let Some(name) = modern::name_in(&Method::new(method), params) {
                write!(head, "mcp-name: {}\r\n", modern::encode_header(&name)).unwrap();
            }
        }
        if let Some(session) = &self.session {
            write!(head, "mcp-session-id: {session}\r\n").unwrap();
        }
        head + "\r\n"
    }
}

/// Everything before the body.
async fn head_of(stream: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).await.unwrap() > 0, "no answer: {head}");
    }
    head
}

impl Client for Http {
    fn call<'a>(&'a mut self, method: &'a str, params: Value) -> Later<'a, Raw> {
        let params = params_of(self.revision, &params);
        Box::pin(async move { outcome(&self.exchange(method, &params).await.1) })
    }
}
