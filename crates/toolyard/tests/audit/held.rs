//! With `sync = "full"`: what the audit has while an upstream holds a call, and when its answer has ended.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::{Gateway, Home, eventually};

/// No wait of these tests takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server over HTTP that hands each call to the test, which answers it when it wants to.
pub(crate) struct Upstream {
    url: String,
    calls: Receiver<(TcpStream, Value)>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (send, calls) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let send = send.clone();
                std::thread::spawn(move || serve(stream, &send));
            }
        });
        Self { url, calls }
    }

    /// The connection of the next call, and the id of its request.
    pub(crate) fn called(&self) -> (TcpStream, Value) {
        self.calls.recv_timeout(PATIENCE).expect("the call reaches the upstream")
    }
}

fn serve(stream: TcpStream, calls: &Sender<(TcpStream, Value)>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read_request(&mut reader) {
        let result = match request["method"].as_str().unwrap() {
            "server/discover" => {
                json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } })
            }
            "tools/list" => json!({
                "resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public",
                "tools": [{ "name": "wait", "inputSchema": { "type": "object" } }],
            }),
            "tools/call" => {
                calls.send((stream, request["id"].clone())).unwrap();
                return;
            }
            _ => json!({ "resultType": "complete" }),
        };
        let body = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        write!(&stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    }
}

/// The body of the next request; `None` at the end of the connection.
fn read_request(reader: &mut impl std::io::BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    // A notification is answered, too; what it is does not matter here.
    Some(serde_json::from_slice(&body).unwrap_or_else(|_| json!({ "method": "none" })))
}

/// A gateway with this upstream, which is active.
fn gateway(home: &Home, upstream: &Upstream) -> Gateway {
    gateway_with(home, upstream, "")
}

/// The same, with more keys of the section on the audit, and other sections.
pub(crate) fn gateway_with(home: &Home, upstream: &Upstream, more: &str) -> Gateway {
    let config = format!("[audit]\nsync = \"full\"\n{more}\n[upstreams.held]\nurl = \"{}\"\n", upstream.url);
    home.write(".config/toolyard/config.toml", &config);
    let gateway = home.start(&[]);
    eventually("the upstream is active", || {
        get(&gateway, "/api/v1/upstreams/held").contains("\"state\":\"active\"").then_some(())
    });
    gateway
}

fn address(gateway: &Gateway) -> &str {
    gateway.url.trim_start_matches("http://").split('/').next().unwrap()
}

fn get(gateway: &Gateway, path: &str) -> String {
    let mut answer = String::new();
    ask(gateway, path, "").read_to_string(&mut answer).unwrap();
    answer
}

/// Sends a request with more lines in its head; its answer comes on the connection.
pub(crate) fn ask(gateway: &Gateway, path: &str, lines: &str) -> BufReader<TcpStream> {
    let address = address(gateway);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n{lines}Connection: close\r\n\r\n").unwrap();
    BufReader::new(stream)
}

/// Sends a call of the tool; its answer comes on the connection.
pub(crate) fn send_call(gateway: &Gateway) -> BufReader<TcpStream> {
    let address = address(gateway);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    });
    let params = json!({ "name": "held__wait", "arguments": {}, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: held__wait\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    BufReader::new(stream)
}

/// The statuses of the records that `toolyard audit` lists, the oldest first.
pub(crate) fn statuses(home: &Home) -> Vec<String> {
    let (code, lines, error) = home.run(&["audit", "--json", "--state-dir", "state"]);
    assert_eq!((code, error.as_str()), (0, ""));
    lines.lines().map(status).collect()
}

fn status(line: &str) -> String {
    let record: Value = serde_json::from_str(line).unwrap();
    record["status"].as_str().unwrap().to_owned()
}

#[test]
fn full_commits_the_first_record_before_the_upstream_is_called_and_a_kill_leaves_it() {
    let (home, upstream) = (Home::new(), Upstream::start());
    let gateway = gateway(&home, &upstream);
    let _client = send_call(&gateway);
    // From here on the upstream holds the call.
    let _held = upstream.called();
    assert_eq!(statuses(&home), ["open"]);
    gateway.signal(Signal::SIGKILL);
    gateway.wait();
    assert_eq!(statuses(&home), ["open"]);
    let (code, words, _) = home.run(&["audit", "--verify", "--state-dir", "state"]);
    assert!(code == 0 && words.contains("1 records are as they were written"), "{words}");
}

/// `toolyard audit --follow`, ended with this value.
struct Following(Child, BufReader<ChildStdout>);

impl Following {
    fn start(home: &Home) -> Self {
        let mut child =
            home.toolyard(&["audit", "--follow", "--json", "--state-dir", "state"]).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        Self(child, BufReader::new(stdout))
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_streamed_answer_is_recorded_at_its_true_end_and_follow_prints_both_records() {
    let (home, upstream) = (Home::new(), Upstream::start());
    let gateway = gateway(&home, &upstream);
    let mut following = Following::start(&home);
    let mut client = send_call(&gateway);
    let (held, id) = upstream.called();
    let opened = following.next();
    assert_eq!((&opened["what"], &opened["tool"]), (&json!("opened"), &json!("held:wait")));

    let event = |message: &Value| {
        let data = format!("data: {message}\n\n");
        write!(&held, "{:x}\r\n{data}\r\n", data.len()).unwrap();
    };
    write!(&held, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        .unwrap();
    let params = json!({ "progressToken": 1, "progress": 1, "message": "half way" });
    event(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
    let mut line = String::new();
    while !line.contains("half way") {
        line.clear();
        assert!(client.read_line(&mut line).unwrap() > 0, "the first part of the answer reaches the client");
    }
    // The client has a part of the answer, and the call is still open.
    assert_eq!(statuses(&home), ["open"]);

    let result = json!({ "resultType": "complete", "content": [{ "type": "text", "text": "done" }] });
    event(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    write!(&held, "0\r\n\r\n").unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("done"), "{rest}");
    let ended = following.next();
    assert_eq!((&ended["what"], &ended["status"]), (&json!("ended"), &json!("ok")), "{ended}");
    assert_eq!(ended["call"], opened["call"]);
    assert!(ended["answerBytes"].as_u64() > Some(0), "{ended}");
    assert_eq!(statuses(&home), ["ok"]);
}
