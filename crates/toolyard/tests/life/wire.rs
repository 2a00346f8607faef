//! Requests beyond those of `http`: with capabilities, with progress, and in a session with a token.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::http;

/// A request of a modern client with these capabilities. Further members of `_meta` are kept.
pub(crate) fn modern_of(
    url: &str,
    more: &[(&str, &str)],
    method: &str,
    mut params: Value,
    capabilities: &Value,
) -> TcpStream {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    let name = params["name"].as_str().map(ToOwned::to_owned);
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
    headers.extend(more);
    http::send(url, &headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

/// A request of a modern client that wants progress.
pub(crate) fn with_progress(url: &str, more: &[(&str, &str)], method: &str, mut params: Value) -> TcpStream {
    params["_meta"] = json!({ "progressToken": 7 });
    modern_of(url, more, method, params, &json!({}))
}

/// The events of an answer that is an event stream, as they come.
pub(crate) fn events(stream: TcpStream) -> impl Iterator<Item = Value> {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
}

/// The messages of an answer, whether it is an event stream or one JSON text, as they come.
pub(crate) fn messages(stream: TcpStream) -> impl Iterator<Item = Value> {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap_or(&line)).ok())
        .filter(Value::is_object)
}

/// Opens a session of a legacy client with a token; the headers of its requests.
pub(crate) fn open_session<'a>(url: &str, token: (&'a str, &'a str)) -> Vec<(&'a str, String)> {
    open_session_of(url, token, &json!({}))
}

/// The same with these capabilities.
pub(crate) fn open_session_of<'a>(
    url: &str,
    token: (&'a str, &'a str),
    capabilities: &Value,
) -> Vec<(&'a str, String)> {
    let info = json!({ "name": "t", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let session = http::post(url, &[token], &hello).header("mcp-session-id").expect("a session").to_owned();
    let version = ("mcp-protocol-version", "2025-11-25".to_owned());
    let headers = vec![("mcp-session-id", session), version, (token.0, token.1.to_owned())];
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(http::post(url, &borrowed(&headers), &ready).status, 202);
    headers
}

pub(crate) fn borrowed<'a>(headers: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    headers.iter().map(|(name, value)| (*name, value.as_str())).collect()
}
