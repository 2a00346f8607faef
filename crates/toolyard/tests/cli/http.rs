//! Just enough HTTP to talk MCP to a gateway: one request per connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The one message in it, whether it came as JSON or as an event.
    pub(crate) fn message(&self) -> Value {
        let text =
            self.body.lines().find_map(|line| line.strip_prefix("data: ").filter(|text| !text.is_empty()));
        serde_json::from_str(text.unwrap_or(&self.body))
            .unwrap_or_else(|_| panic!("no message in {}", self.body))
    }

    pub(crate) fn tool_names(&self) -> Vec<String> {
        let message = self.message();
        let tools = message["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools in {message}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Sends a message to `http://ADDRESS/mcp`, or to another path of that address.
pub(crate) fn post(url: &str, headers: &[(&str, &str)], message: &Value) -> Reply {
    read(send(url, headers, message))
}

/// Sends a message and leaves the answer for later.
pub(crate) fn send(url: &str, headers: &[(&str, &str)], message: &Value) -> TcpStream {
    send_text(url, headers, &message.to_string())
}

/// The same for a message that is sent as it is written.
pub(crate) fn send_text(url: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
    let rest = url.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_once('/').unwrap_or((rest, "mcp"));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let own: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n{own}\r\n{body}",
        body.len(),
        own = own.concat(),
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

pub(crate) fn read(mut stream: TcpStream) -> Reply {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_owned(), body: without_chunks(head, body) }
}

fn without_chunks(head: &str, body: &str) -> String {
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut rest, mut whole) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    whole
}

/// A request as a client of 2026-07-28 sends it.
pub(crate) fn modern(url: &str, method: &str, params: Value) -> TcpStream {
    modern_with(url, &[], method, params)
}

/// The same with more headers.
pub(crate) fn modern_with(url: &str, more: &[(&str, &str)], method: &str, mut params: Value) -> TcpStream {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().map(ToOwned::to_owned);
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
    headers.extend(more);
    send(url, &headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

/// Opens a session as a client of 2025-11-25 does.
pub(crate) fn open_session(url: &str) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let reply =
        post(url, &[], &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
    assert_eq!(reply.message()["result"]["protocolVersion"], "2025-11-25");
    let session = reply.header("mcp-session-id").expect("a session").to_owned();
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let reply = post(url, &headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    assert_eq!(reply.status, 202);
    session
}

/// A request within a session.
pub(crate) fn legacy(url: &str, session: &str, method: &str, params: &Value) -> TcpStream {
    let headers = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
    send(url, &headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}
