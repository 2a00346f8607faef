//! `ask` over a real connection, in both eras: the function waits for the answer and runs once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use toolyard_tool::{Context, Server, ToolError, ToolSet, tool};

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    sure: bool,
}

/// Deletes something, after asking.
#[tool]
async fn delete(runs: &Arc<AtomicU32>, context: &Context) -> Result<String, ToolError> {
    let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
    let sure = context.ask::<Confirm>("Really?").await?.accepted()?.sure;
    Ok(format!("run {run}: {}", if sure { "deleted" } else { "kept" }))
}

struct Lines {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
}

impl Lines {
    async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.read.read_line(&mut line).await.unwrap() > 0, "the server left");
        serde_json::from_str(&line).unwrap()
    }

    async fn exchange(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        self.next().await
    }
}

/// Talks to a server of the set; gives how often the function ran.
async fn talk(conversation: impl AsyncFnOnce(&mut Lines)) -> u32 {
    let runs = Arc::<AtomicU32>::default();
    let set = ToolSet::new("parked", "1").state(runs.clone()).with::<delete>();
    let server = Server::start(set, []).await.unwrap();
    let (ours, theirs) = duplex(64 * 1024);
    let ((read, write), (read_theirs, write_theirs)) = (split(ours), split(theirs));
    let mut lines = Lines { read: BufReader::new(read), write };
    tokio::select! {
        () = server.serve_stream(read_theirs, write_theirs) => panic!("the server left"),
        () = conversation(&mut lines) => {}
    }
    server.end().await;
    runs.load(Ordering::SeqCst)
}

fn text_of(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}"))
}

#[tokio::test]
async fn a_modern_client_comes_back_to_the_call_that_waits() {
    let runs = talk(async |lines| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        });
        let params = json!({ "name": "delete", "arguments": {}, "_meta": meta });
        let asked = lines.exchange(1, "tools/call", params.clone()).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let asks = asked["result"]["inputRequests"].as_object().unwrap();
        let (key, ask) = asks.iter().next().unwrap();
        assert_eq!(
            (&ask["method"], &ask["params"]["message"]),
            (&json!("elicitation/create"), &json!("Really?"))
        );
        let mut again = params;
        again["inputResponses"] = json!({ key: { "action": "accept", "content": { "sure": true } } });
        again["requestState"] = asked["result"]["requestState"].clone();
        assert_eq!(text_of(&lines.exchange(2, "tools/call", again).await), "run 1: deleted");
    });
    assert_eq!(runs.await, 1);
}

#[tokio::test]
async fn a_legacy_client_gets_a_request_in_the_middle_of_its_call() {
    let runs = talk(async |lines| {
        let info = json!({ "name": "t", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": { "elicitation": {} }, "clientInfo": info });
        lines.exchange(1, "initialize", params).await;
        lines.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        let asked = lines.exchange(2, "tools/call", json!({ "name": "delete" })).await;
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let result = json!({ "action": "accept", "content": { "sure": false } });
        lines.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
        assert_eq!(text_of(&lines.next().await), "run 1: kept");
    });
    assert_eq!(runs.await, 1);
}
