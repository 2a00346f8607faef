//! What a client meets on a line: stdio, TCP and Unix sockets are all the same.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use toolyard_model::{ClientKey, Principal, Scope, View};
use toolyard_proto::Method;
use toolyard_serve::{Endpoint, Options, serve_pipe, serve_stream};

use crate::support::{Double, initialize, modern, until};

pub(crate) struct Client {
    pub(crate) double: Arc<Double>,
    endpoint: Arc<Endpoint>,
    pub(crate) read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    pub(crate) scope: Scope,
}

pub(crate) fn client(options: Options) -> Client {
    client_of(options, View::Everything)
}

fn client_of(options: Options, view: View) -> Client {
    let (scope, double) = (Scope::new(), Arc::new(Double::default()));
    let endpoint = Arc::new(Endpoint::new(double.clone(), options, &scope));
    let (near, far) = duplex(4096);
    let (read, write) = split(far);
    scope.spawn(serve_stream(read, write, endpoint.clone(), view, Principal::local(), scope.clone()));
    let (read, write) = split(near);
    Client { double, endpoint, read: BufReader::new(read), write, scope }
}

impl Client {
    pub(crate) async fn send_text(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_text(&format!("{message}\n")).await;
    }

    /// The next line; `Null` at the end.
    pub(crate) async fn next(&mut self) -> Value {
        let mut line = String::new();
        let reading = self.read.read_line(&mut line);
        tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap().unwrap();
        if line.is_empty() { Value::Null } else { serde_json::from_str(&line).unwrap() }
    }

    pub(crate) async fn shake_hands(&mut self, revision: &str) {
        self.send(&initialize(revision)).await;
        assert_eq!(self.next().await["result"]["protocolVersion"], revision);
    }
}

pub(crate) fn call(id: u64, name: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } })
}

/// Sends lines to a fresh connection and compares what comes back: `code id` or `ok id` for each.
async fn check(revision: Option<&str>, lines: &[&str], expected: &[&str]) {
    let mut client = client(Options { line_limit: 10_000, ..Options::default() });
    if let Some(revision) = revision {
        client.shake_hands(revision).await;
    }
    for line in lines {
        client.send_text(&format!("{line}\n")).await;
    }
    for expected in expected {
        let answer = client.next().await;
        let id = answer.get("id").map_or("-".into(), Value::to_string);
        let got = match &answer["error"]["code"] {
            Value::Null if answer.is_null() => "end".into(),
            Value::Null => format!("ok {id}"),
            code => format!("{code} {id}"),
        };
        assert_eq!(got, *expected, "{lines:?} {answer}");
    }
}

#[tokio::test]
async fn every_message_is_answered_in_its_era() {
    let list = modern("tools/list", json!({})).to_string();
    let ping = modern("ping", json!({})).to_string();
    let old = r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#;
    let long = format!("\"{}\"", "x".repeat(10_100));
    check(None, &[&list], &["ok 1"]).await;
    check(None, &[&list.replace("2026-07-28", "x")], &["-32022 1"]).await;
    check(None, &[&ping], &["-32601 1"]).await;
    check(None, &[r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#], &["-32602 1"]).await;
    check(None, &[old], &["-32600 \"a\""]).await;
    check(None, &[r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#], &["ok 4"]).await;
    check(None, &["{", "7", r#"{"jsonrpc":"2.0","id":1}"#], &["-32700 -", "-32600 -", "-32600 1"]).await;
    check(None, &[&"[".repeat(200)], &["-32600 -"]).await;
    check(None, &[&long], &["-32600 -", "end"]).await;
    check(Some("2025-11-25"), &[old], &["ok \"a\""]).await;
    check(Some("2025-11-25"), &[&list], &["ok 1"]).await;
    check(Some("2025-11-25"), &[&initialize("2025-11-25").to_string()], &["-32600 0"]).await;
    check(Some("2025-11-25"), &[&format!("[{old}]")], &["-32600 -"]).await;
    check(Some("2025-11-25"), &[r#"{"jsonrpc":"2.0","id":9,"result":{}}"#, old], &["ok \"a\""]).await;
}

#[tokio::test]
async fn the_hub_refuses_modern_methods() {
    let mut client = client_of(Options::default(), View::Hub);
    client.send(&modern("server/discover", json!({}))).await;
    assert_eq!(client.next().await["error"]["code"], -32601);
}

#[tokio::test]
async fn a_payload_over_several_lines_is_written_on_one() {
    let mut client = client(Options::default());
    client.shake_hands("2025-11-25").await;
    client.send(&call(1, "lines", &json!({}))).await;
    assert_eq!(client.next().await["result"], json!({ "content": [] }));
}

#[tokio::test]
async fn notifications_come_before_the_answer() {
    let mut client = client(Options::default());
    client.send(&modern("tools/call", json!({ "name": "notify", "arguments": { "count": 3 } }))).await;
    for n in 0..3 {
        assert_eq!(client.next().await["params"]["progress"], n);
    }
    assert_eq!(client.next().await["id"], 1);
}

#[tokio::test]
async fn a_question_to_a_legacy_client_goes_over_the_line() {
    let mut client = client(Options::default());
    client.shake_hands("2025-06-18").await;
    client.send(&call(1, "ask", &json!({}))).await;
    let question = client.next().await;
    assert_eq!(question["method"], "elicitation/create");
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } })).await;
    assert_eq!(client.next().await["result"]["content"][0]["text"], "reply {\"action\":\"decline\"}");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_question_ends_after_ten_minutes() {
    let mut client = client(Options::default());
    client.shake_hands("2025-06-18").await;
    let begun = tokio::time::Instant::now();
    client.send(&call(1, "ask", &json!({}))).await;
    assert_eq!(client.next().await["method"], "elicitation/create");
    let mut line = String::new();
    client.read.read_line(&mut line).await.unwrap();
    assert!(line.contains("notifications/cancelled"), "{line}");
    assert!(client.next().await["result"]["content"][0]["text"].as_str().unwrap().contains("in time"));
    assert_eq!(begun.elapsed().as_secs(), 600);
}

#[tokio::test]
async fn a_cancelled_call_is_not_answered_in_either_era() {
    let mut client = client(Options::default());
    client.shake_hands("2025-11-25").await;
    let hang = modern("tools/call", json!({ "name": "hang" }));
    for (n, body) in [hang, call(1, "hang", &json!({}))].into_iter().enumerate() {
        client.send(&body).await;
        client.send(&body).await;
        assert_eq!(client.next().await["error"]["code"], -32600, "the id is in use");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } })).await;
        let dropped = client.double.dropped.clone();
        until("the call is dropped", || dropped.load(Ordering::SeqCst) == n + 1).await;
    }
    client.send(&call(2, "echo", &json!({}))).await;
    assert_eq!(client.next().await["id"], 2);
}

#[tokio::test]
async fn the_end_of_the_connection_ends_its_calls() {
    for revision in [None, Some("2025-11-25")] {
        let mut client = client(Options::default());
        if let Some(revision) = revision {
            client.shake_hands(revision).await;
        }
        client.send(&modern("tools/call", json!({ "name": "hang" }))).await;
        client
            .send(
                &modern("tools/list", json!({})).to_string().replace("\"id\":1", "\"id\":2").parse().unwrap(),
            )
            .await;
        assert_eq!(client.next().await["id"], 2);
        client.write.shutdown().await.unwrap();
        assert_eq!(client.next().await, Value::Null);
        // A session's listener goes with it.
        let expected = 1 + usize::from(revision.is_some());
        let dropped = client.double.dropped.clone();
        until("the calls are dropped", || dropped.load(Ordering::SeqCst) == expected).await;
        let double = client.double.clone();
        until("the handler knows", || double.ended.lock().len() == 1).await;
        assert!(matches!(client.double.ended.lock()[0], ClientKey::Connection(_)));
    }
}

/// A client that closes its end while calls are under way; the endpoint waits for these a minute.
async fn piped(revision: Option<&str>, lines: &[Value]) -> Client {
    let (scope, double) = (Scope::new(), Arc::new(Double::default()));
    let endpoint = Arc::new(Endpoint::new(double.clone(), Options::default(), &scope));
    let (near, far) = duplex(64 * 1024);
    let (read, write) = split(far);
    scope.spawn(serve_pipe(read, write, endpoint.clone(), Duration::from_mins(1), scope.clone()));
    let (read, write) = split(near);
    let mut client = Client { double, endpoint, read: BufReader::new(read), write, scope };
    if let Some(revision) = revision {
        client.shake_hands(revision).await;
    }
    for line in lines {
        client.send(line).await;
    }
    client.write.shutdown().await.unwrap();
    client
}

#[tokio::test(start_paused = true)]
async fn a_client_that_pipes_requests_in_gets_all_answers() {
    let modern = |id: u64, name: &str| {
        let mut call = modern("tools/call", json!({ "name": name }));
        call["id"] = id.into();
        call
    };
    let listen = crate::support::modern("subscriptions/listen", json!({ "notifications": {} }));
    let lines = [listen, modern(2, "wait"), modern(3, "echo"), call(4, "wait", &json!({}))];
    for (revision, lines) in [(None, &lines[..3]), (Some("2025-11-25"), &lines[1..])] {
        let mut client = piped(revision, lines).await;
        let double = client.double.clone();
        let is_ready = || double.started.load(Ordering::SeqCst) >= 3;
        until("the calls are under way", is_ready).await;
        tokio::time::sleep(Duration::from_secs(50)).await;
        double.gate.notify_waiters();
        let mut answered = Vec::new();
        loop {
            match client.next().await {
                Value::Null => break,
                message => answered.extend(message["id"].as_u64()),
            }
        }
        answered.sort_unstable();
        let expected: Vec<u64> = lines.iter().filter_map(|line| line["id"].as_u64()).collect();
        assert_eq!(answered, expected, "{revision:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_answers_to_piped_requests_are_waited_for_within_a_deadline() {
    let begun = tokio::time::Instant::now();
    let mut client = piped(None, &[modern("tools/call", json!({ "name": "hang" }))]).await;
    let mut line = String::new();
    assert_eq!(client.read.read_line(&mut line).await.unwrap(), 0, "{line}");
    assert_eq!(begun.elapsed().as_secs(), 60);
    assert_eq!(client.double.dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_pipes_requests_in_cannot_be_asked() {
    let begun = tokio::time::Instant::now();
    let mut client = piped(Some("2025-06-18"), &[call(1, "ask", &json!({}))]).await;
    let mut answer = client.next().await;
    while answer["id"] != 1 || answer.get("method").is_some() {
        answer = client.next().await;
    }
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().starts_with("error"), "{answer}");
    assert!(begun.elapsed().as_secs() < 10);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected() {
    let mut client = client(Options::default());
    client.shake_hands("2025-11-25").await;
    client.send(&call(1, "burst", &json!({ "count": 1000 }))).await;
    client.send(&call(2, "big", &json!({ "size": 100_000 }))).await;
    client.send(&call(3, "hang", &json!({}))).await;
    let begun = tokio::time::Instant::now();
    let (double, endpoint) = (client.double.clone(), client.endpoint.clone());
    while double.ended.lock().is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(begun.elapsed() < Duration::from_mins(1));
    }
    assert!(endpoint.counts().dropped.load(Ordering::Relaxed) > 500);
}

#[tokio::test]
async fn a_subscription_on_a_line_bears_its_id_to_the_end() {
    let mut client = client(Options::default());
    client.send(&modern("subscriptions/listen", json!({ "notifications": {} }))).await;
    let stamp = json!({ "io.modelcontextprotocol/subscriptionId": 1 });
    assert_eq!(client.next().await["params"]["_meta"], stamp);
    client.double.announce(&Method::TOOLS_CHANGED, None);
    assert_eq!(client.next().await["params"]["_meta"], stamp);
    let endpoint = client.endpoint.clone();
    let (last, ()) = tokio::join!(client.next(), endpoint.end(Duration::from_secs(5)));
    assert_eq!(last["result"], json!({ "resultType": "complete", "_meta": stamp }));
    assert_eq!(client.next().await, Value::Null);
}

#[tokio::test]
async fn a_legacy_session_receives_plain_notifications() {
    let mut client = client(Options::default());
    client.shake_hands("2025-11-25").await;
    let double = client.double.clone();
    until("the session listens", || !double.listeners.lock().is_empty()).await;
    client.double.announce(&Method::TOOLS_CHANGED, None);
    assert_eq!(
        client.next().await,
        json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })
    );
}

#[tokio::test]
async fn a_batch_is_answered_with_one_array() {
    let mut client = client(Options::default());
    client.shake_hands("2025-03-26").await;
    client.send(&json!([call(1, "echo", &json!({})), 7, call(2, "echo", &json!({}))])).await;
    assert_eq!(client.next().await.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn nothing_follows_the_answer() {
    let mut client = client(Options::default());
    client.shake_hands("2025-11-25").await;
    let late = modern("tools/call", json!({ "name": "late" }));
    for body in [late, call(1, "late", &json!({}))] {
        client.send(&body).await;
        assert_eq!(client.next().await["id"], 1);
        client.double.gate.notify_one();
        client.send(&call(2, "after_late", &json!({}))).await;
        assert_eq!(client.next().await["id"], 2);
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_misses_progress_but_no_change() {
    let mut client = client(Options::default());
    client.shake_hands("2025-11-25").await;
    let (double, endpoint) = (client.double.clone(), client.endpoint.clone());
    until("the session listens", || !double.listeners.lock().is_empty()).await;
    // The writer takes some of the first; the second fills their places again.
    for (id, dropped) in [(1, 600), (2, 1400)] {
        client.send(&call(id, "burst", &json!({ "count": 1000 }))).await;
        until("progress is dropped", || endpoint.counts().dropped.load(Ordering::Relaxed) > dropped).await;
    }
    client.double.announce(&Method::TOOLS_CHANGED, None);
    while client.next().await["method"] != "notifications/tools/list_changed" {}
}

#[tokio::test(start_paused = true)]
async fn notifications_beyond_the_limit_are_dropped_except_the_last_change() {
    let mut client = client(Options::default());
    client.shake_hands("2025-11-25").await;
    for _ in 0..1_000 {
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })).await;
    }
    client.send(&json!({ "jsonrpc": "2.0", "id": 5, "method": "ping" })).await;
    assert_eq!(client.next().await["id"], 5);
    assert_eq!(client.double.notices.lock().len(), 100);
    assert_eq!(client.endpoint.counts().dropped.load(Ordering::Relaxed), 900);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(client.double.notices.lock().len(), 101);
}
