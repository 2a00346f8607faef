//! Calls tools of the gateway over HTTP, one connection each, and returns their structured results.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

const REVISION: &str = "2026-07-28";

pub(super) struct Client {
    address: String,
    limit: Duration,
}

impl Client {
    pub(super) fn new(origin: &str, limit: Duration) -> Self {
        Self { address: origin.trim_start_matches("http://").to_owned(), limit }
    }

    pub(super) fn call(&self, tool: &str, arguments: &Value) -> Result<Value> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: {REVISION}\r\n\
             mcp-method: tools/call\r\nmcp-name: {tool}\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).context("connect to the gateway")?;
        stream.set_read_timeout(Some(self.limit))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).with_context(|| format!("read the answer of {tool}"))?;
        let mut message = message(&answer).with_context(|| format!("read the answer of {tool}"))?;
        if !message["error"].is_null() || message["result"]["isError"] == true {
            bail!("{tool} failed: {message}");
        }
        Ok(message["result"]["structuredContent"].take())
    }
}

/// The response in an HTTP answer: its body, or the last event of its stream.
fn message(answer: &[u8]) -> Result<Value> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").context("an answer without a body")?;
    let (head, body) = (String::from_utf8_lossy(&answer[..end]).to_lowercase(), &answer[end + 4..]);
    let body = if head.contains("transfer-encoding: chunked") { dechunked(body)? } else { body.to_owned() };
    let body = String::from_utf8(body).context("an answer that is not text")?;
    let mut events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let text = events.next_back().unwrap_or(&body);
    serde_json::from_str(text).with_context(|| format!("an answer that is not JSON: {head} {text}"))
}

fn dechunked(mut body: &[u8]) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").context("a chunk without a size")?;
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end])?.trim(), 16)?;
        if size == 0 {
            return Ok(whole);
        }
        let chunk = body.get(end + 2..end + 2 + size).context("a chunk that ends early")?;
        whole.extend_from_slice(chunk);
        body = body.get(end + 4 + size..).context("a chunk without an end")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_chunks_and_events_are_read() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\ndata: {\"a\":0}\n\ndata: {\"a\":1}\n\n",
        ] {
            assert_eq!(message(answer.as_bytes()).unwrap(), json!({ "a": 1 }), "{answer}");
        }
    }
}
