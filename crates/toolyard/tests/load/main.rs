//! The real program under load: hundreds of upstreams, hundreds of reloads.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]
#![expect(clippy::print_stdout, reason = "figures for people")]

#[path = "../cli/gateway.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod gateway;
#[path = "../cli/http.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod http;
#[path = "../support/testkit.rs"]
mod testkit;

mod kills;
mod many;
mod reloads;
mod slow_starts;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

/// A server on a socket. Killed when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// A server without faults.
    fn start() -> Self {
        let mut command = Command::new(program());
        command.args(["good", "legacy", "tcp", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on tcp://").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server as a program.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| testkit::build("rogue").to_str().unwrap().to_owned())
}

/// The answer of a tool of the gateway itself.
fn yard(url: &str, tool: &str) -> Value {
    let call = json!({ "name": format!("yard__{tool}"), "arguments": {} });
    let message = http::read(http::modern(url, "tools/call", call)).message();
    message["result"]["structuredContent"].clone()
}
