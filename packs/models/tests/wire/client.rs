//! A client of the pack over a local socket, which proves its user.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use toolyard_tool::{Door, Server};

pub(crate) struct Client {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    sent: u64,
    /// Notifications that came before the last answer.
    pub(crate) notified: Vec<Value>,
    _server: Server,
    _folder: tempfile::TempDir,
}

impl Client {
    pub(crate) async fn new(config: Value) -> Self {
        let pack = toolyard_pack_models::pack();
        assert_eq!(pack.check(&config), []);
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("pack.sock");
        let server = Server::start(pack.tools(config).unwrap(), [Door::Unix(socket.clone())]).await.unwrap();
        let (read, write) = UnixStream::connect(socket).await.unwrap().into_split();
        let (read, notified) = (BufReader::new(read), Vec::new());
        let mut client = Self { read, write, sent: 0, notified, _server: server, _folder: folder };
        let about = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about });
        client.request("initialize", hello).await;
        client
    }

    /// The result of a call of a tool.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let meta = json!({ "progressToken": "p" });
        self.request("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta })).await
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        self.write.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        self.notified.clear();
        loop {
            let mut line = String::new();
            assert!(self.read.read_line(&mut line).await.unwrap() > 0, "the server disconnected");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.sent {
                assert!(message["error"].is_null(), "{message}");
                return message["result"].clone();
            }
            self.notified.push(message);
        }
    }
}
