//! Hub sessions over a restart of the gateway: their connections are restored.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use super::doors::{hello, post};
use super::instance::Instance;
use super::{HUB_TOOLS, error_text, hub, wait_for};
use crate::support::{Yard, eventually};

/// A session over HTTP, which outlives the gateway.
struct Session(String);

impl Session {
    fn open(yard: &Yard) -> Self {
        let (status, head, body) = post(yard, None, &hello());
        assert_eq!(status, 200, "{body}");
        let headers = head.lines().filter_map(|line| line.split_once(": "));
        let session = headers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
        Self(session.unwrap_or_else(|| panic!("{head}")).1.to_owned())
    }

    fn ask(&self, yard: &Yard, method: &str, params: &Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": "one", "method": method, "params": params });
        let (status, _, body) = post(yard, Some(&self.0), &message);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap_or_else(|_| panic!("{body}"))["result"].take()
    }

    fn call(&self, yard: &Yard, name: &str, arguments: &Value) -> Value {
        self.ask(yard, "tools/call", &json!({ "name": name, "arguments": arguments }))
    }

    fn echo(&self, yard: &Yard) -> Value {
        self.call(yard, "test_echo", &json!({ "text": "still here" }))
    }

    fn tools(&self, yard: &Yard) -> Vec<String> {
        let listed = self.ask(yard, "tools/list", &json!({}));
        let names = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    }

    /// Opens the stream of messages outside of calls; returns its lines.
    fn listen(&self, yard: &Yard) -> impl Iterator<Item = String> {
        let mut stream = yard.http(None).into_stream();
        let head = format!(
            "GET /mcp/hub HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {}\r\n\r\n",
            self.0
        );
        stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        BufReader::new(stream).lines().map(|line| line.expect("some word"))
    }

    /// Connects, and waits until that is stored.
    fn connect(&self, yard: &Yard, id: &str) {
        let result = self.call(yard, "instances_connect", &json!({ "instance_id": id }));
        assert!(result["isError"].is_null(), "{result}");
        eventually("the session to be kept", || is_kept(yard, id).then_some(()));
    }
}

/// Whether a stored session is connected to this instance.
fn is_kept(yard: &Yard, id: &str) -> bool {
    kept(yard).iter().any(|text| text.contains(&format!(r#""keepsake":"{id}""#)))
}

/// The stored sessions.
fn kept(yard: &Yard) -> Vec<String> {
    let files = std::fs::read_dir(yard.folder().join("state/sessions")).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect()
}

fn watches(yard: &Yard) -> bool {
    kept(yard).iter().any(|text| text.contains("test://watched-resource"))
}

#[test]
fn an_http_session_is_reconnected_to_its_instance_after_a_restart_of_the_gateway() {
    for era in ["legacy", "both"] {
        let mut yard = Yard::start("");
        let _instance = Instance::start(&yard, "shop", era);
        wait_for(&mut hub(&yard), "shop");
        let (session, other) = (Session::open(&yard), Session::open(&yard));
        session.connect(&yard, "shop");
        let before = session.tools(&yard);
        yard.restart();
        // The very first request waits for the instance to be found.
        assert_eq!(session.echo(&yard)["content"][0]["text"], "still here", "{era}");
        assert_eq!(session.tools(&yard), before, "{era}");
        assert_eq!(wait_for(&mut hub(&yard), "shop")["sessions"], 1, "{era}");
        // A session that was not connected is not connected now.
        assert_eq!(other.tools(&yard).len(), HUB_TOOLS.len(), "{era}");
        // A disconnect is remembered, too.
        session.call(&yard, "instances_disconnect", &json!({}));
        eventually("the end of it to be kept", || (!is_kept(&yard, "shop")).then_some(()));
        yard.restart();
        assert_eq!(session.tools(&yard).len(), HUB_TOOLS.len(), "{era}");
        assert!(error_text(&session.echo(&yard)).contains("not connected to an instance"), "{era}");
    }
}

#[test]
fn a_session_receives_an_error_until_its_instance_is_back_and_then_a_notification() {
    let mut yard = Yard::start("");
    let mut instance = Instance::start(&yard, "shop", "both");
    wait_for(&mut hub(&yard), "shop");
    let session = Session::open(&yard);
    session.connect(&yard, "shop");
    instance.kill();
    std::fs::remove_file(&instance.file).unwrap();
    yard.restart();
    let refused = session.echo(&yard);
    assert!(error_text(&refused).contains("`shop` has not been found again"), "{refused}");
    let refused = session.call(&yard, "instances_call", &json!({ "tool": "test_echo" }));
    assert!(error_text(&refused).contains("`shop` has not been found again"), "{refused}");
    assert_eq!(session.tools(&yard).len(), HUB_TOOLS.len());

    let mut lines = session.listen(&yard);
    lines.find(String::is_empty).expect("the stream is open");
    let _again = Instance::start(&yard, "shop", "both");
    lines
        .find(|line| line.contains("notifications/tools/list_changed"))
        .expect("the client is notified of the change");
    assert_eq!(session.echo(&yard)["content"][0]["text"], "still here");
}

#[test]
fn subscriptions_at_one_instance_do_not_move_to_the_next_before_or_after_a_restart() {
    for is_away in [false, true] {
        let mut yard = Yard::start("");
        let (mut one, _two) =
            (Instance::start(&yard, "one", "legacy"), Instance::start(&yard, "two", "legacy"));
        wait_for(&mut hub(&yard), "one");
        wait_for(&mut hub(&yard), "two");
        let session = Session::open(&yard);
        session.connect(&yard, "one");
        session.ask(&yard, "resources/subscribe", &json!({ "uri": "test://watched-resource" }));
        eventually("it to be kept", || watches(&yard).then_some(()));
        if is_away {
            one.kill();
            std::fs::remove_file(&one.file).unwrap();
            yard.restart();
            assert_eq!(session.tools(&yard).len(), HUB_TOOLS.len());
            assert!(watches(&yard), "it would be watched again at its own instance");
        }
        session.connect(&yard, "two");
        eventually("nothing to be watched", || (!watches(&yard)).then_some(()));
        yard.restart();
        assert_eq!(session.echo(&yard)["content"][0]["text"], "still here");
        assert!(!watches(&yard));
    }
}

#[test]
fn a_stdio_session_is_notified_if_its_instance_does_not_come_back_with_the_gateway() {
    let mut yard = Yard::start("");
    let mut instance = Instance::start(&yard, "shop", "both");
    wait_for(&mut hub(&yard), "shop");
    let mut child = yard.command(&["stdio", "--hub"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let mut stdin = child.stdin.take().unwrap();
    let call = |id: u64, name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    writeln!(stdin, "{}", hello()).unwrap();
    writeln!(stdin, "{}", call(3, "instances_connect", json!({ "instance_id": "shop" }))).unwrap();
    writeln!(stdin, "{}", call(5, "test_echo", json!({ "text": "here" }))).unwrap();
    lines.find(|line| line["id"] == 5).unwrap();
    let is_change = |line: &Value| line["method"] == "notifications/tools/list_changed";
    instance.kill();
    std::fs::remove_file(&instance.file).unwrap();
    lines.find(is_change).expect("the instance is gone");
    yard.kill();
    lines.find(is_change).expect("there is another gateway, and everything is to be read again");
    writeln!(stdin, "{}", call(4, "test_echo", json!({ "text": "?" }))).unwrap();
    let refused = lines.find(|line| line["id"] == 4).unwrap();
    assert!(error_text(&refused["result"]).contains("not connected to an instance"), "{refused}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}
