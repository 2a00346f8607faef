//! A client of the pack over TCP. It checks every structured answer against the tool's output schema, so each
//! test here tests that as well.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use toolyard_tool::{Door, Server};

pub(crate) struct Music {
    pub(crate) folder: TempDir,
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    sent: u64,
    schemas: BTreeMap<String, Value>,
    /// Notifications that came before the last answer.
    pub(crate) notifications: Vec<Value>,
    _server: Server,
}

impl Music {
    pub(crate) async fn new() -> Self {
        Self::with(json!({})).await
    }

    /// With these keys besides the root.
    pub(crate) async fn with(keys: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("library");
        fs::create_dir_all(&root).unwrap();
        // A loopback connection does not prove its user.
        let mut config = json!({ "root": root, "unproven_writes": true });
        for (key, value) in keys.as_object().unwrap() {
            config[key] = value.clone();
        }
        let pack = toolyard_pack_music::pack();
        assert_eq!(pack.check(&config), []);
        let server =
            Server::start(pack.tools(config).unwrap(), [Door::Tcp("127.0.0.1:0".into())]).await.unwrap();
        let (read, write) = TcpStream::connect(server.addresses()[0]).await.unwrap().into_split();
        let (read, schemas) = (BufReader::new(read), BTreeMap::new());
        let mut music =
            Self { folder, read, write, sent: 0, schemas, notifications: Vec::new(), _server: server };
        let client = json!({ "name": "test", "version": "1" });
        music
            .request(
                "initialize",
                json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
            )
            .await;
        let tools = music.request("tools/list", json!({})).await;
        music.schemas = tools["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["outputSchema"].clone()))
            .collect();
        music
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("library")
    }

    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.schemas.contains_key(name)
    }

    /// The structured content of a call that works.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, arguments.clone()).await;
        assert_ne!(result["isError"], true, "{tool} {arguments}: {result}");
        assert!(!result["content"][0]["text"].as_str().unwrap().is_empty(), "{tool} returns no text");
        let schema = &self.schemas[tool];
        let validator = jsonschema::validator_for(schema).unwrap();
        let content = &result["structuredContent"];
        let problems: Vec<String> = validator.iter_errors(content).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{tool}: {problems:?} in {content}");
        content.clone()
    }

    /// The text of a call that fails.
    pub(crate) async fn failure(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.result(tool, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn result(&mut self, tool: &str, arguments: Value) -> Value {
        let meta = json!({ "progressToken": "p" });
        self.request("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta })).await
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.sent += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        self.write.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        self.sent
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        let notification = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.write.write_all(format!("{notification}\n").as_bytes()).await.unwrap();
    }

    /// The next message of any kind.
    pub(crate) async fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.read.read_line(&mut line).await.unwrap() > 0, "the server left");
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        let message = self.message(id).await;
        assert!(message["error"].is_null(), "{message}");
        message["result"].clone()
    }

    /// The result or the error.
    pub(crate) async fn message(&mut self, id: u64) -> Value {
        self.notifications.clear();
        loop {
            let message = self.next().await;
            if message["id"] == id {
                return message;
            }
            self.notifications.push(message);
        }
    }
}

/// Every path below `root` with the hash of its content, without what the pack keeps for itself.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".toolyard") {
                continue;
            }
            let content = path.is_file().then(|| fs::read(&path).unwrap());
            if content.is_none() && path.is_dir() {
                todo.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap().to_owned(), content);
        }
    }
    found
}
