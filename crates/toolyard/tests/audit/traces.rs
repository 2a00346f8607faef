//! Traces through the real program: a call through two gateways is one trace, from the client's span to the last
//! upstream.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::gateway::{Gateway, Home, eventually};
use crate::testkit;

/// The receiver of the testkit.
struct Spans {
    child: Child,
    _stdin: ChildStdin,
    url: String,
    lines: Receiver<String>,
    seen: Vec<Value>,
}

impl Spans {
    fn receive() -> Self {
        let mut child = Command::new(testkit::build("otlp"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        let url = lines.recv_timeout(Duration::from_secs(15)).unwrap();
        Self { child, _stdin: stdin, url, lines, seen: Vec::new() }
    }

    /// Waits until there is a span for which this holds.
    fn find(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(found) = self.seen.iter().find(|span| is_it(span)) {
                return found.clone();
            }
            let line = self.lines.recv_timeout(Duration::from_secs(15));
            let line = line.unwrap_or_else(|_| panic!("no such span came; there are {:#?}", self.seen));
            self.seen.push(serde_json::from_str(&line).unwrap());
        }
    }

    /// The span of this service and kind below another.
    fn below(&mut self, parent: &str, service: &str, kind: &str) -> Value {
        let span =
            self.find(|span| span["parent"] == parent && span["service"] == service && span["kind"] == kind);
        assert!(span["end"].as_u64() >= span["start"].as_u64(), "{span}");
        span
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const OTHER: &str = "1af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";

/// Calls a tool with these members in `_meta`; the body of the answer.
fn call(gateway: &Gateway, tool: &str, meta: &str) -> String {
    call_with(gateway, "", tool, "{}", meta)
}

/// The same with more lines in the head of the request, and with arguments.
fn call_with(gateway: &Gateway, head: &str, tool: &str, arguments: &str, meta: &str) -> String {
    let address = gateway.url.trim_start_matches("http://").split('/').next().unwrap();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{{{meta}"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\n{head}Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn start(home: &Home, traces: &str, service: &str, more: &str) -> Gateway {
    let traces = format!("[traces]\nendpoint = \"{traces}\"\nservice = \"{service}\"\n{more}");
    home.write(".config/toolyard/config.toml", &traces);
    home.start(&["--no-apps"])
}

#[test]
fn a_call_through_two_gateways_is_one_trace() {
    let (mut spans, inner_home, outer_home) = (Spans::receive(), Home::new(), Home::new());
    let inner = start(&inner_home, &spans.url, "inner", "");
    let upstream = format!("[upstreams.inner]\nurl = \"{}/mcp\"\n", inner.url);
    let outer = start(&outer_home, &spans.url, "outer", &upstream);
    let answer = call(&outer, "inner__yard__status", &format!(r#""traceparent":"00-{TRACE}-{CLIENT}-01","#));
    assert!(answer.contains("\"result\""), "{answer}");
    let outer_server = spans.below(CLIENT, "outer", "server");
    assert_eq!(outer_server["name"], "tools/call yard__status");
    assert_eq!(outer_server["attributes"]["mcp.method.name"], "tools/call");
    assert_eq!(outer_server["attributes"]["mcp.protocol.version"], "2026-07-28");
    let outer_client = spans.below(outer_server["span"].as_str().unwrap(), "outer", "client");
    assert_eq!(outer_client["attributes"]["toolyard.upstream"], "inner");
    let inner_server = spans.below(outer_client["span"].as_str().unwrap(), "inner", "server");
    let inner_client = spans.below(inner_server["span"].as_str().unwrap(), "inner", "client");
    for span in [outer_server, outer_client, inner_server, inner_client] {
        assert_eq!((span["trace"].as_str(), &span["error"]), (Some(TRACE), &Value::Bool(false)), "{span}");
    }
}

#[test]
fn a_caller_that_does_not_record_is_respected_and_others_begin_traces() {
    let (mut spans, home) = (Spans::receive(), Home::new());
    let gateway = start(&home, &spans.url, "yard", "");
    call(&gateway, "yard__status", &format!(r#""traceparent":"00-{TRACE}-{CLIENT}-00","#));
    call(&gateway, "yard__status", r#""traceparent":"nonsense","tracestate":"a=b","#);
    let own = spans.find(|span| span["kind"] == "server");
    assert!(own["parent"].is_null() && own["trace"] != TRACE, "{own}");
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let (status, ..) = gateway.wait();
    assert!(status.success());
    assert!(spans.seen.iter().all(|span| span["trace"] != TRACE), "{:?}", spans.seen);
}

#[test]
fn a_call_that_a_tool_makes_is_part_of_its_trace_and_is_not_recorded_if_that_is_not() {
    let (mut spans, home) = (Spans::receive(), Home::new());
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/life/skill_server.py");
    let more = format!(
        "[listen]\ntoken = \"user\"\n[packs.sessions]\nprograms = [\"claude\"]\n[upstreams.one]\ncommand = \"python3\"\nargs = [\"{server}\", \"lamp\"]\nera = \"legacy\"\n"
    );
    let gateway = start(&home, &spans.url, "yard", &more);
    let get = |trace: &str, flags: &str| {
        let arguments = r#"{"name":"skill://one/lamp/SKILL.md"}"#;
        let parent = format!(r#""traceparent":"00-{trace}-{CLIENT}-{flags}","#);
        let head = "Authorization: Bearer user\r\n";
        call_with(&gateway, head, "sessions__skill_get", arguments, &parent)
    };
    eventually("the server has its skill", || get(OTHER, "00").contains("Body of lamp").then_some(()));
    assert!(get(TRACE, "01").contains("Body of lamp"));
    let nested = spans.find(|span| span["name"] == "resources/read" && span["kind"] == "server");
    assert_eq!(nested["trace"], TRACE, "{nested}");
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(gateway.wait().0.success());
    let others: Vec<_> = spans.seen.iter().filter(|span| span["trace"] != TRACE).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn the_last_spans_are_exported_before_the_gateway_ends_and_a_missing_receiver_costs_nothing() {
    let (mut spans, home) = (Spans::receive(), Home::new());
    let gateway = start(&home, &spans.url, "yard", "");
    call(&gateway, "yard__status", "");
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(gateway.wait().0.success());
    spans.find(|span| span["kind"] == "server");
    let nowhere = spans.url.clone();
    drop(spans);
    let other = Home::new();
    let gateway = start(&other, &nowhere, "yard", "");
    assert!(call(&gateway, "yard__status", "").contains("\"result\""));
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(gateway.wait().0.success());
}
