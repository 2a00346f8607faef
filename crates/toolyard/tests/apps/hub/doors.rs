//! The hub at every door: clients that speak both eras are led to a session.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::instance::Instance;
use super::{HUB_TOOLS, hub, wait_for};
use crate::support::{Agent, Yard};

const MODERN: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn discover(version: &str) -> Value {
    let meta: Value = serde_json::from_str(&MODERN.replace("2026-07-28", version)).unwrap();
    json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": { "_meta": meta } })
}

pub(super) fn hello() -> Value {
    let info = json!({ "name": "t", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    json!({ "jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params })
}

/// Posts a message on a connection of its own: the status, the head and the body.
pub(super) fn post(yard: &Yard, session: Option<&str>, message: &Value) -> (u16, String, String) {
    let body = message.to_string();
    let version = if session.is_some() { "2025-11-25" } else { "2026-07-28" };
    let session = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
    let method = message["method"].as_str().unwrap();
    let head = format!(
        "POST /mcp/hub HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\nMcp-Method: {method}\r\nConnection: close\r\n{session}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = yard.http(None).into_stream();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
}

#[test]
fn over_http_a_modern_request_is_answered_as_by_a_legacy_server_and_a_session_works() {
    let yard = Yard::start("");
    let _instance = Instance::start(&yard, "shop", "both");
    wait_for(&mut hub(&yard), "shop");
    for version in ["2026-07-28", "2099-01-01"] {
        let (status, _, body) = post(&yard, None, &discover(version));
        assert_eq!(status, 400, "{version}: {body}");
        assert!(
            serde_json::from_str::<Value>(&body).is_err(),
            "no modern error, so that clients fall back: {body}"
        );
    }
    let (status, head, body) = post(&yard, None, &hello());
    assert_eq!(status, 200, "{body}");
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    let session = headers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
    let session = session.unwrap_or_else(|| panic!("{head}")).1.to_owned();
    let call = |id: u64, name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        post(&yard, Some(&session), &message).2
    };
    assert!(
        call(3, "instances/connect", json!({ "instance_id": "shop" })).contains("Connected to instance shop")
    );
    assert!(call(4, "test_echo", json!({ "text": "over HTTP" })).contains("over HTTP"));
}

#[test]
fn on_lines_a_modern_request_is_an_unknown_method_and_a_session_works() {
    let yard = Yard::start("");
    let mut agent = Agent::new(&yard);
    agent.write(&json!({ "toolyard": 1, "view": "hub" }));
    for version in ["2026-07-28", "2099-01-01"] {
        agent.write(&discover(version));
        assert_eq!(agent.answer(1)["error"]["code"], -32601, "{version}");
    }
    assert_eq!(agent.shake_hands().tools(), HUB_TOOLS);
}

#[test]
fn toolyard_stdio_joins_the_hub() {
    let yard = Yard::start("");
    let _instance = Instance::start(&yard, "shop", "both");
    wait_for(&mut hub(&yard), "shop");
    let mut child = yard.command(&["stdio", "--hub"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stdin = child.stdin.take().unwrap();
    let mut ask = |message: &Value| -> Value {
        writeln!(stdin, "{message}").unwrap();
        loop {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if line["id"] == message["id"] {
                return line;
            }
        }
    };
    assert_eq!(ask(&discover("2026-07-28"))["error"]["code"], -32601);
    let greeting = ask(&hello());
    assert_eq!(greeting["result"]["capabilities"]["tools"]["listChanged"], true, "{greeting}");
    assert!(greeting["result"]["instructions"].as_str().unwrap().contains("instances_connect"), "{greeting}");
    let call = |id: u64, name: &str, arguments: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
    ask(&call(3, "instances_connect", json!({ "instance_id": "shop" })));
    let answer = ask(&call(4, "test_echo", json!({ "text": "on stdio" })));
    assert_eq!(answer["result"]["content"][0]["text"], "on stdio", "{answer}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_stdio_session_is_reconnected_to_its_instance_after_its_gateway_was_killed() {
    let mut yard = Yard::start("");
    let _instance = Instance::start(&yard, "shop", "legacy");
    wait_for(&mut hub(&yard), "shop");
    let mut child = yard.command(&["stdio", "--hub"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let mut stdin = child.stdin.take().unwrap();
    let mut ask = |message: &Value| -> Value {
        writeln!(stdin, "{message}").unwrap();
        lines.find(|line| line["id"] == message["id"]).expect("it is still there")
    };
    let request = |id: u64, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    ask(&hello());
    let connect = json!({ "name": "instances/connect", "arguments": { "instance_id": "shop" } });
    ask(&request(3, "tools/call", connect));
    ask(&request(4, "resources/subscribe", json!({ "uri": "test://watched-resource" })));
    yard.kill();
    // Another gateway is started, the session finds its instance, and the next message waits for that.
    // A call that was on its way to the killed gateway fails with an error.
    let echo = json!({ "name": "test_echo", "arguments": { "text": "still here" } });
    let answers = (100..).map(|id| ask(&request(id, "tools/call", echo.clone())));
    let mut texts = answers.map(|answer| answer["result"]["content"][0]["text"].to_string());
    let text = texts.find(|text| !text.contains("the gateway was lost")).unwrap();
    assert_eq!(text, "\"still here\"");
    // The renewed subscription is not announced, so the first update may be missed; any update will do.
    let update = json!({ "name": "test_update_resource", "arguments": {} });
    let updated = (1000..1400).find_map(|id| {
        writeln!(stdin, "{}", request(id, "tools/call", update.clone())).unwrap();
        let is_word = |line: &Value| line["method"] == "notifications/resources/updated" || line["id"] == id;
        let word = lines.find(is_word).filter(|line| line.get("method").is_some());
        std::thread::sleep(Duration::from_millis(if word.is_some() { 0 } else { 50 }));
        word
    });
    let updated = updated.expect("word of an update");
    assert_eq!(updated["params"]["uri"], "test://watched-resource", "{updated}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}
