//! One call on a connection of its own, whose node may be killed or suspended meanwhile.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

/// The answer to a call; nothing if the node was killed meanwhile.
pub(crate) fn attempt(port: u16, tool: &str, arguments: &Value) -> Option<Result<String, String>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
         mcp-name: {tool}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let answers: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ").unwrap_or(line)).ok())
        .filter(|message| message["id"] == 1)
        .collect();
    assert!(answers.len() <= 1, "more than one answer: {text}");
    let answer = answers.into_iter().next()?;
    let text = answer["result"]["content"][0]["text"].as_str().map(str::to_owned);
    let is_error = answer["result"]["isError"] == true;
    Some(text.filter(|_| !is_error).ok_or_else(|| answer.to_string()))
}
