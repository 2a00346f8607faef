//! What a legacy client meets over HTTP.

#[path = "support/serve.rs"]
mod support;

use serde_json::json;
use support::{OK, world};

#[tokio::test]
async fn a_call_in_a_session_is_answered() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let reply = world.classic(&session, "tools/call", json!({ "name": "echo" })).await;
    assert_eq!((reply.status, reply.header("content-type")), (OK, "application/json"));
    assert_eq!(reply.json()["result"], json!({ "content": [{ "type": "text", "text": "echo" }] }));
}
