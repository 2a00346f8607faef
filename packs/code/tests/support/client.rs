//! A client of the pack, in the same process.

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use toolyard_tool::{Server, ToolSet};

/// A client of the pack.
pub(crate) struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    next: u64,
}

impl Client {
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.writer.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        loop {
            let message = self.message().await;
            if message["id"] == self.next {
                return message["result"].clone();
            }
        }
    }

    /// The next message of the pack.
    pub(crate) async fn message(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The structured result of a call, which must succeed.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert_ne!(result["isError"], true, "{tool} {result}");
        result["structuredContent"].clone()
    }
}

/// Runs a test with a client of a tool set.
pub(crate) async fn with_client(set: ToolSet, test: impl AsyncFnOnce(&mut Client)) {
    let server = Server::start(set, []).await.unwrap();
    let (near, far) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(far);
    let (answers, writer) = tokio::io::split(near);
    let mut client = Client { lines: BufReader::new(answers).lines(), writer, next: 0 };
    let testing = async {
        let info = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        client.request("initialize", hello).await;
        test(&mut client).await;
    };
    tokio::select! {
        () = server.serve_stream(read, write) => panic!("the pack ended"),
        () = testing => {}
    }
}
