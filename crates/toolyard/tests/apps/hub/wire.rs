//! A session over TCP that keeps every line as it came, so that answers can be compared to the byte.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::PATIENCE;

pub(crate) struct Wire {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
    /// Whether every request is stateless.
    alone: bool,
}

impl Wire {
    /// Opens a session, in the named view if there is one.
    pub(crate) fn open(address: &str, view: Option<&str>) -> Self {
        let mut wire = Self::connect(address, false);
        if let Some(view) = view {
            wire.write(&json!({ "toolyard": 1, "view": view }));
        }
        let info = json!({ "name": "t", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        wire.ask("initialize", &hello);
        wire.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        wire
    }

    /// A client without a session.
    pub(crate) fn alone(address: &str) -> Self {
        Self::connect(address, true)
    }

    fn connect(address: &str, alone: bool) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        Self { stream, lines, alone }
    }

    fn write(&mut self, message: &Value) {
        self.stream.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    /// The whole line that answers; every request has the same id.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> String {
        let mut params = params.clone();
        if self.alone {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        self.write(&json!({ "jsonrpc": "2.0", "id": "one", "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).expect("an answer") > 0, "the connection ended");
            if serde_json::from_str::<Value>(&line).unwrap().get("method").is_none() {
                return line;
            }
        }
    }

    pub(crate) fn call(&mut self, name: &str, arguments: &Value) -> String {
        self.ask("tools/call", &json!({ "name": name, "arguments": arguments }))
    }

    /// The entries of a list.
    pub(crate) fn list(&mut self, method: &str, key: &str) -> Vec<Value> {
        let line = self.ask(method, &json!({}));
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        serde_json::from_value(answer["result"][key].take()).unwrap_or_else(|_| panic!("{method}: {line}"))
    }
}
