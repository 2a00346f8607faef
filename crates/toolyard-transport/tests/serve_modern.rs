//! What a modern client meets over HTTP.

#[path = "support/serve.rs"]
mod support;

use serde_json::json;
use support::{OK, world};

#[tokio::test]
async fn an_answer_alone_is_json() {
    let world = world().await;
    let reply = world.modern("tools/call", json!({ "name": "echo" })).await;
    assert_eq!((reply.status, reply.header("content-type")), (OK, "application/json"));
    assert_eq!(reply.json()["result"]["content"][0]["text"], "echo");
}

#[tokio::test]
async fn a_notification_first_makes_it_a_stream() {
    let world = world().await;
    let reply = world.modern("tools/call", json!({ "name": "notify", "arguments": { "count": 1000 } })).await;
    assert_eq!((reply.status, reply.header("content-type")), (OK, "text/event-stream"));
    let events = reply.events();
    assert_eq!(events.len(), 1001);
    assert_eq!(events[1000]["result"]["content"][0]["text"], "notify");
}
