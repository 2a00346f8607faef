//! Who owns a task, through real doors. No client is authenticated there, so the owner is the session, the connection,
//! or any client that knows the task's id.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use toolyard_tool::{Door, Server, ToolSet};

use crate::tasks::linger;

async fn server(door: fn(String) -> Door) -> (Server, SocketAddr, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let set = ToolSet::new("owners", "1").state(gate.clone()).with::<linger>();
    let server = Server::start(set, [door("127.0.0.1:0".into())]).await.unwrap();
    let address = server.addresses()[0];
    (server, address, gate)
}

fn initialize() -> Value {
    let info = json!({ "name": "test", "version": "1" });
    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info })
}

/// A 2025-11-25 client, at whatever door.
enum Client {
    Http { address: SocketAddr, session: String },
    Lines(Box<BufReader<TcpStream>>),
}

impl Client {
    async fn http(address: SocketAddr) -> Self {
        let (head, _) =
            post(address, "mcp-protocol-version: 2025-11-25\r\n", "initialize", initialize()).await;
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        Self::Http { address, session: session.to_owned() }
    }

    async fn lines(address: SocketAddr) -> Self {
        let mut client = Self::Lines(Box::new(BufReader::new(TcpStream::connect(address).await.unwrap())));
        client.request("initialize", initialize()).await;
        client
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        match self {
            Self::Http { address, session } => {
                let headers = format!("mcp-protocol-version: 2025-11-25\r\nmcp-session-id: {session}\r\n");
                post(*address, &headers, method, params).await.1
            }
            Self::Lines(stream) => {
                let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
                stream.write_all(format!("{request}\n").as_bytes()).await.unwrap();
                loop {
                    let mut line = String::new();
                    assert!(stream.read_line(&mut line).await.unwrap() > 0, "it left");
                    let message: Value = serde_json::from_str(&line).unwrap();
                    if message["id"] == method {
                        return message;
                    }
                }
            }
        }
    }

    async fn leave(self) {
        if let Self::Http { address, session } = self {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!(
                "DELETE /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nmcp-session-id: {session}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.read_to_string(&mut String::new()).await.unwrap();
        }
    }
}

/// The head of the answer, and the message in it.
async fn post(address: SocketAddr, headers: &str, method: &str, params: Value) -> (String, Value) {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let message = body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let mut message = message.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    (head.to_owned(), message.rfind(Value::is_object).unwrap_or_default())
}

async fn check_that_each_has_its_own(mut one: Client, mut other: Client, gate: &Notify) {
    let params = json!({ "name": "linger", "task": {} });
    let started = one.request("tools/call", params).await;
    let about = json!({ "taskId": started["result"]["task"]["taskId"] });
    assert_eq!(other.request("tasks/list", json!({})).await["result"]["tasks"], json!([]));
    for method in ["tasks/get", "tasks/cancel", "tasks/result"] {
        assert_eq!(other.request(method, about.clone()).await["error"]["code"], -32602, "{method}");
    }
    assert_eq!(one.request("tasks/get", about.clone()).await["result"]["status"], "working");
    let listed = one.request("tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"][0]["taskId"], about["taskId"]);
    one.leave().await;
    tokio::time::timeout(Duration::from_secs(5), gate.notified())
        .await
        .expect("no client can come back for it");
}

#[tokio::test]
async fn a_session_sees_its_own_tasks_alone_and_they_end_with_it() {
    let (server, address, gate) = server(Door::Http).await;
    check_that_each_has_its_own(Client::http(address).await, Client::http(address).await, &gate).await;
    server.end().await;
}

#[tokio::test]
async fn a_connection_sees_its_own_tasks_alone_and_they_end_with_it() {
    let (server, address, gate) = server(Door::Tcp).await;
    check_that_each_has_its_own(Client::lines(address).await, Client::lines(address).await, &gate).await;
    server.end().await;
}

#[tokio::test]
async fn with_stateless_requests_the_task_id_is_enough_to_ask_about_a_task() {
    let (server, address, _) = server(Door::Http).await;
    let request = async |method: &str, mut params: Value| {
        let info = json!({ "name": "test", "version": "1" });
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": info,
            "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        });
        let name = params["name"].as_str().or_else(|| params["taskId"].as_str()).unwrap_or_default();
        let headers =
            format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\nmcp-name: {name}\r\n");
        post(address, &headers, method, params).await.1
    };
    let started = request("tools/call", json!({ "name": "linger" })).await;
    let id = started["result"]["taskId"].as_str().unwrap();
    assert!(id.len() >= 32, "128 bits, so that it cannot be guessed: {id}");
    let task = request("tasks/get", json!({ "taskId": id })).await;
    assert_eq!(task["result"]["status"], "working", "{task}");
    let mut legacy = Client::http(address).await;
    assert_eq!(legacy.request("tasks/list", json!({})).await["result"]["tasks"], json!([]));
    assert_eq!(legacy.request("tasks/get", json!({ "taskId": id })).await["error"]["code"], -32602);
    server.end().await;
}
