//! Clients that post each message: one connection per request, so that the end of the answer is the end of
//! the connection.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolyard_proto::{Method, Raw, Revision, modern};
use toolyard_tool::{Door, Server};

use super::Example;
use super::clients::{Client, Later, initialize, outcome, params_of};

pub(crate) struct Http {
    address: SocketAddr,
    path: &'static str,
    revision: Revision,
    session: Option<String>,
    /// What must live as long as the client.
    _keep: Box<dyn std::any::Any>,
}

pub(crate) fn http(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let server = Server::start((example.tools)(), [Door::Http("127.0.0.1:0".into())]).await.unwrap();
        let address = server.addresses()[0];
        Box::new(Http::open(address, "/mcp", revision, server).await) as Box<dyn Client>
    })
}

impl Http {
    pub(crate) async fn open(
        address: SocketAddr,
        path: &'static str,
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
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream
            .write_all(format!("{}{body}", self.head(method, params, body.len())).as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body =
            if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        let message = if head.contains("text/event-stream") { last_event(&body) } else { body };
        (head.to_owned(), Raw::parse(message).unwrap())
    }

    fn head(&self, method: &str, params: &Raw, length: usize) -> String {
        let mut head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {length}\r\nmcp-protocol-version: {}\r\n",
            self.path, self.address, self.revision
        );
        if self.revision.is_modern() {
            write!(head, "mcp-method: {method}\r\n").unwrap();
        }
        if let Some(name) =
            modern::name_in(&Method::new(method), params).filter(|_| self.revision.is_modern())
        {
            write!(head, "mcp-name: {}\r\n", modern::encode_header(&name)).unwrap();
        }
        if let Some(session) = &self.session {
            write!(head, "mcp-session-id: {session}\r\n").unwrap();
        }
        head + "\r\n"
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        body = rest.get(size + 2..).unwrap_or_default();
    }
    whole
}

/// The message of the last event, which is the answer.
fn last_event(body: &str) -> String {
    let mut data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.rfind(|data| !data.trim().is_empty()).unwrap().to_owned()
}

impl Client for Http {
    fn call<'a>(&'a mut self, method: &'a str, params: Value) -> Later<'a, Raw> {
        let params = params_of(self.revision, &params);
        Box::pin(async move { outcome(&self.exchange(method, &params).await.1) })
    }
}
