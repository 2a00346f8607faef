//! What a modern client meets over HTTP once its request is accepted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_proto::Method;
use toolyard_serve::Options;

use crate::support::{until, world, world_with};

/// The content type of the answer, how many events came before the last message, and that message.
async fn check(name: &str, arguments: Value, expected: (&str, usize, Value)) {
    let world = world().await;
    let reply = world.modern("tools/call", json!({ "name": name, "arguments": arguments })).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, expected.0), "{reply:?}");
    let mut messages = if expected.0 == "text/event-stream" { reply.events() } else { vec![reply.json()] };
    let last = messages.pop().unwrap();
    assert_eq!((messages.len(), &last), (expected.1, &expected.2));
}

fn text(text: &str) -> Value {
    let result = json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" });
    json!({ "jsonrpc": "2.0", "id": 1, "result": result })
}

#[tokio::test]
async fn an_answer_is_json_unless_a_notification_comes_first() {
    let (json_kind, events) = ("application/json", "text/event-stream");
    let relayed = json!({ "jsonrpc": "2.0", "id": 1, "result": { "relayed": 1 } });
    let big = "x".repeat(100_000);
    check("echo", json!({}), (json_kind, 0, text("echo"))).await;
    check("big", json!({ "size": 100_000 }), (json_kind, 0, text(&big))).await;
    check("notify", json!({ "count": 1 }), (events, 1, text("notify"))).await;
    check("notify", json!({ "count": 1000 }), (events, 1000, text("notify"))).await;
    check("relay_json", json!({}), (json_kind, 0, relayed.clone())).await;
    check("relay_sse", json!({}), (events, 0, json!({ "relayed": 1 }))).await;
    check("relay_json", json!({ "notify": true }), (events, 1, relayed)).await;
    check("relay_sse", json!({ "notify": true }), (events, 1, json!({ "relayed": 1 }))).await;
}

#[tokio::test]
async fn streams_are_not_to_be_buffered() {
    let world = world().await;
    let reply = world.modern("tools/call", json!({ "name": "relay_sse" })).await;
    assert_eq!((reply.header("cache-control"), reply.header("x-accel-buffering")), ("no-cache", "no"));
}

#[tokio::test]
async fn the_newest_notifications_are_dropped_when_too_many_wait() {
    let world = world().await;
    let reply = world.modern("tools/call", json!({ "name": "burst", "arguments": { "count": 1000 } })).await;
    let events = reply.events();
    assert_eq!(events.len(), 257);
    assert_eq!(events[255]["params"]["progress"], 255);
    assert_eq!(world.endpoint.counts().dropped.load(Ordering::Relaxed), 744);
}

#[tokio::test]
async fn log_messages_come_only_as_loud_as_asked_for() {
    let world = world().await;
    for (level, expected) in [(None, 0), (Some("debug"), 3), (Some("warning"), 2), (Some("emergency"), 0)] {
        let mut params = json!({ "name": "log" });
        if let Some(level) = level {
            params["_meta"] = json!({ "io.modelcontextprotocol/logLevel": level });
        }
        let reply = world.modern("tools/call", params).await;
        assert_eq!(reply.body.matches("notifications/message").count(), expected, "{level:?}");
    }
    let params = json!({ "name": "log", "_meta": { "io.modelcontextprotocol/logLevel": "loud" } });
    assert_eq!(world.modern("tools/call", params).await.json()["error"]["code"], -32602);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_call() {
    let world = world().await;
    // Before the response has begun.
    let open = world.open_modern("tools/call", json!({ "name": "hang" }));
    tokio::select! {
        _ = open => panic!("there is no answer"),
        () = until("the call has begun", || world.double.started.load(Ordering::SeqCst) == 1) => {}
    }
    until("the call is dropped", || world.double.dropped.load(Ordering::SeqCst) == 1).await;
    // In the middle of its stream.
    let mut live = world.open_modern("tools/call", json!({ "name": "notify_and_wait" })).await;
    assert_eq!(live.message().await.unwrap()["method"], "notifications/progress");
    drop(live);
    until("the call is dropped", || world.double.dropped.load(Ordering::SeqCst) == 2).await;
}

#[tokio::test]
async fn a_silent_stream_is_kept_alive() {
    let options = Options { keep_alive: Duration::from_millis(5), ..Options::default() };
    let world = world_with(options).await;
    let live = world.open_modern("tools/call", json!({ "name": "notify_and_wait" })).await;
    let gate = world.double.gate.clone();
    let reading = live.read();
    let release = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        gate.notify_one();
    };
    let (reply, ()) = tokio::join!(reading, release);
    assert!(reply.body.contains("\n:\n\n"), "{}", reply.body);
    assert_eq!(reply.events().len(), 2);
}

#[tokio::test]
async fn everything_on_a_subscription_bears_its_id() {
    let world = world().await;
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let mut live = world.open_modern("subscriptions/listen", params).await;
    let stamp = json!({ "io.modelcontextprotocol/subscriptionId": 1 });
    let acknowledged = live.message().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        acknowledged["params"],
        json!({ "notifications": { "toolsListChanged": true }, "_meta": stamp })
    );
    world.double.announce(&Method::LOG, Some(&json!({ "level": "error" })));
    world.double.announce(&Method::TOOLS_CHANGED, None);
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "_meta": stamp } });
    assert_eq!(live.message().await.unwrap(), changed);
    let ((), last) = tokio::join!(world.endpoint.end(Duration::from_secs(5)), live.message());
    let result = json!({ "resultType": "complete", "_meta": stamp });
    assert_eq!(last.unwrap(), json!({ "jsonrpc": "2.0", "id": 1, "result": result }));
    assert_eq!(live.message().await, None);
}

#[tokio::test]
async fn a_refused_subscription_is_an_error_and_a_closed_one_is_dropped() {
    let world = world().await;
    let refused = json!({ "notifications": { "resourceSubscriptions": ["refused:x"] } });
    let reply = world.modern("subscriptions/listen", refused).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (200, &json!(-32602)));
    let mut live = world.open_modern("subscriptions/listen", json!({ "notifications": {} })).await;
    live.message().await.unwrap();
    drop(live);
    until("the listener is dropped", || world.double.dropped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn notifications_are_taken_without_a_session() {
    let world = world().await;
    for method in ["notifications/cancelled", "notifications/custom"] {
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": { "requestId": 1 } });
        let reply = world.post(&[("mcp-protocol-version", "2026-07-28")], &body).await;
        assert_eq!((reply.status, reply.body.as_str()), (202, ""));
    }
    assert_eq!(*world.double.notices.lock(), ["notifications/custom"]);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let world = world_with(Options { patience: Duration::from_millis(50), ..Options::default() }).await;
    let live = world.open_modern("tools/call", json!({ "name": "flood" })).await;
    until("the call is dropped", || world.double.dropped.load(Ordering::SeqCst) == 1).await;
    drop(live);
}
