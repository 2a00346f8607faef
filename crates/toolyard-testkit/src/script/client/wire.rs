//! How the scripted client reaches the other side: a stream of lines, or HTTP with a connection per message.

use std::collections::HashMap;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, split,
};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use toolyard_proto::Revision;

use super::Client;

#[derive(Debug)]
pub struct Wire(Kind);

#[derive(Debug)]
enum Kind {
    Lines {
        write: tokio::sync::Mutex<WriteHalf<DuplexStream>>,
        read: Mutex<Option<ReadHalf<DuplexStream>>>,
    },
    Http {
        address: String,
        path: String,
        session: Mutex<Option<String>>,
        open: Mutex<HashMap<u64, CancellationToken>>,
    },
}

impl Wire {
    pub fn lines(stream: DuplexStream) -> Self {
        let (read, write) = split(stream);
        Self(Kind::Lines { write: tokio::sync::Mutex::new(write), read: Mutex::new(Some(read)) })
    }

    /// `address` is host and port.
    pub fn http(address: &str, path: &str) -> Self {
        let (address, path) = (address.to_owned(), path.to_owned());
        Self(Kind::Http { address, path, session: Mutex::default(), open: Mutex::default() })
    }

    pub(super) async fn send(&self, client: &Client, message: Value) -> Result<(), String> {
        match &self.0 {
            Kind::Lines { write, .. } => {
                let line = format!("{message}\n");
                write.lock().await.write_all(line.as_bytes()).await.map_err(|error| error.to_string())
            }
            Kind::Http { .. } => self.post(client, message).await,
        }
    }

    /// Ends a call by hanging up, where that is how it is done.
    pub(super) fn hang_up(&self, id: u64, revision: Revision) -> bool {
        match &self.0 {
            Kind::Http { open, .. } if revision.is_modern() => {
                let token = open.lock().remove(&id);
                token.inspect(CancellationToken::cancel).is_some()
            }
            _ => false,
        }
    }

    /// A request's answer may be long in coming, headers included, so it is waited for elsewhere.
    async fn post(&self, client: &Client, message: Value) -> Result<(), String> {
        let Kind::Http { open, .. } = &self.0 else { return Ok(()) };
        let Some(id) = message["id"].as_u64().filter(|_| message.get("method").is_some()) else {
            return self.exchange(client, Method::POST, Some(&message)).await.map(drop);
        };
        let token = CancellationToken::new();
        open.lock().insert(id, token.clone());
        let client = client.clone();
        client.shared.scope.clone().spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = client.shared.wire.call(&client, &message) => {}
            }
        });
        Ok(())
    }

    async fn call(&self, client: &Client, message: &Value) {
        let Kind::Http { session, .. } = &self.0 else { return };
        match self.exchange(client, Method::POST, Some(message)).await {
            Ok(response) => {
                // To a legacy client 404 means that its session is gone, and 400 that it never had one.
                if !client.shared.revision.is_modern() && response.status() != http::StatusCode::OK {
                    client.state().wrong.push(format!("{} in answer to {message}", response.status()));
                }
                if let Some(given) = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok())
                {
                    session.lock().get_or_insert(given.to_owned());
                }
                read(client, response).await;
            }
            Err(problem) => client.state().wrong.push(problem),
        }
    }

    async fn exchange(
        &self,
        client: &Client,
        method: Method,
        message: Option<&Value>,
    ) -> Result<Response<Incoming>, String> {
        let Kind::Http { address, path, session, .. } = &self.0 else { return Err("not HTTP".into()) };
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        client.shared.scope.spawn(async move {
            let _ = connection.await;
        });
        let revision = client.shared.revision;
        let mut request = Request::builder().method(method).uri(path).header("host", address);
        request = request.header("accept", "application/json, text/event-stream");
        request = request.header("content-type", "application/json");
        let session = session.lock().clone();
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        let is_first = message.is_some_and(|message| message["method"] == "initialize");
        if revision >= Revision::V2025_06_18 && !is_first {
            request = request.header("mcp-protocol-version", revision.as_str());
        }
        for (name, value) in modern_headers(revision, message) {
            request = request.header(name, value);
        }
        let body = message.map_or_else(Bytes::new, |message| Bytes::from(message.to_string()));
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        sender.send_request(request).await.map_err(|error| error.to_string())
    }
}

fn modern_headers(revision: Revision, message: Option<&Value>) -> Vec<(&'static str, String)> {
    let Some(message) = message.filter(|_| revision.is_modern()) else { return Vec::new() };
    let method = message["method"].as_str().unwrap_or_default();
    let mut headers = vec![("mcp-method", method.to_owned())];
    let name = match method {
        "tools/call" | "prompts/get" => &message["params"]["name"],
        "resources/read" => &message["params"]["uri"],
        "tasks/get" | "tasks/update" | "tasks/cancel" => &message["params"]["taskId"],
        _ => &Value::Null,
    };
    headers.extend(name.as_str().map(|name| ("mcp-name", name.to_owned())));
    headers
}

/// Reads messages for as long as the connection lives, where there is one.
pub(super) fn start(client: &Client) -> Result<(), String> {
    let Kind::Lines { read, .. } = &client.shared.wire.0 else { return Ok(()) };
    let read = read.lock().take();
    let read = read.ok_or("a stream serves one client")?;
    let reader = client.clone();
    client.shared.scope.spawn(async move {
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(message) => reader.take(&message),
                Err(_) => reader.state().wrong.push(line),
            }
        }
    });
    Ok(())
}

/// Opens the stream of messages that belong to no call, where there is one.
pub(super) async fn listen(client: &Client) -> Result<(), String> {
    if let Kind::Lines { .. } = &client.shared.wire.0 {
        return Ok(());
    }
    let response = client.shared.wire.exchange(client, Method::GET, None).await?;
    let listener = client.clone();
    client.shared.scope.spawn(async move { read(&listener, response).await });
    Ok(())
}

/// Takes every message of a response, be it JSON or events.
async fn read(client: &Client, response: Response<Incoming>) {
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let mut body = response.into_body();
    let mut text = String::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        text.push_str(&String::from_utf8_lossy(data));
        while let Some(end) = text.find("\n\n").filter(|_| is_stream) {
            let event: String = text.drain(..end + 2).collect();
            let data = event.lines().filter_map(|line| line.strip_prefix("data:")).collect::<String>();
            if let Ok(message) = serde_json::from_str(&data) {
                client.take(&message);
            }
        }
    }
    if let Ok(message) = serde_json::from_str(&text) {
        client.take(&message);
    }
}
