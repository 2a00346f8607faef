//! A call that sends nothing for long: proxies on the way must not take its connection for dead.

use std::time::Duration;

use serde_json::{Value, json};
use toolyard_serve::Options;

use crate::support::{Live, World, world_with};

async fn quiet_world() -> World {
    world_with(Options { keep_alive: Duration::from_millis(30), ..Options::default() }).await
}

/// The response has begun although nothing has been sent; then the answer comes.
async fn check(world: &World, live: Live, text: Value) {
    assert_eq!((live.status, live.headers["content-type"].as_bytes()), (200, "text/event-stream".as_bytes()));
    world.double.gate.notify_one();
    let reply = live.read().await;
    let events = reply.events();
    assert_eq!((events.len(), &events[0]["result"]["content"][0]["text"]), (1, &text), "{}", reply.body);
    let is_first = reply.body.split("\n\n").next().is_some_and(|first| first.contains("result"));
    assert!(!is_first, "there was a keep-alive before the answer: {}", reply.body);
}

#[tokio::test]
async fn a_modern_client_gets_a_keep_alive_before_the_first_message() {
    let world = quiet_world().await;
    let live = world.open_modern("tools/call", json!({ "name": "wait" })).await;
    check(&world, live, json!("wait")).await;
}

#[tokio::test]
async fn a_legacy_client_gets_a_keep_alive_before_the_first_message() {
    let world = quiet_world().await;
    for revision in ["2025-11-25", "2025-03-26"] {
        let session = world.initialize(revision).await;
        let live = world.open_legacy(&session, "tools/call", json!({ "name": "wait" })).await;
        check(&world, live, json!("wait")).await;
    }
}

#[tokio::test]
async fn an_answer_in_time_stays_json() {
    let world = world_with(Options::default()).await;
    let session = world.initialize("2025-11-25").await;
    for reply in [
        world.modern("tools/call", json!({ "name": "echo" })).await,
        world.legacy(&session, "tools/call", json!({ "name": "echo" })).await,
    ] {
        assert_eq!(reply.header("content-type"), "application/json");
    }
}
