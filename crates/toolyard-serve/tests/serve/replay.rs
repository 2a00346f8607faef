//! Streams that a client of 2025-11-25 can come back to.

use serde_json::{Value, json};
use toolyard_proto::codec::sse::Event;

use crate::support::{Live, World, until, world};

async fn come_back(world: &World, session: &str, last: &str) -> Live {
    let live = world.open_get(&[("mcp-session-id", session), ("last-event-id", last)]).await;
    assert_eq!(live.status, 200);
    live
}

fn json_of(event: &Event) -> Value {
    serde_json::from_slice(&event.data).unwrap()
}

#[tokio::test]
async fn only_clients_that_can_come_back_get_event_ids() {
    let world = world().await;
    for (revision, with_ids) in
        [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)]
    {
        let session = world.initialize(revision).await;
        let mut live = world
            .open_legacy(&session, "tools/call", json!({ "name": "notify", "arguments": { "count": 1 } }))
            .await;
        if with_ids {
            let first = live.event().await.unwrap();
            assert!(first.id.is_some() && first.retry.is_some() && first.data.is_empty(), "{first:?}");
        }
        for _ in 0..2 {
            let event = live.event().await.unwrap();
            assert_eq!((event.id.is_some(), event.data.is_empty()), (with_ids, false), "{revision}");
        }
        assert_eq!(live.event().await, None);
    }
}

#[tokio::test]
async fn a_client_that_lost_its_stream_gets_the_rest() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let mut live = world.open_legacy(&session, "tools/call", json!({ "name": "notify_and_wait" })).await;
    let primer = live.event().await.unwrap().id.unwrap();
    let progress = live.event().await.unwrap().id.unwrap();
    drop(live);
    // While the call runs: what comes later arrives live.
    let mut again = come_back(&world, &session, &progress).await;
    world.double.gate.notify_one();
    let answer = again.event().await.unwrap();
    assert_eq!(json_of(&answer)["result"]["content"][0]["text"], "notify_and_wait");
    assert_eq!(again.event().await, None);
    // After its end: what was missed is replayed, as often as asked for.
    for (last, missed) in
        [(primer, 2), (progress, 1), (answer.id.unwrap(), 0), ("77-1".into(), 0), ("x".into(), 0)]
    {
        let mut again = come_back(&world, &session, &last).await;
        let mut count = 0;
        while again.event().await.is_some() {
            count += 1;
        }
        assert_eq!(count, missed, "{last}");
    }
}

#[tokio::test]
async fn an_unread_answer_is_kept() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let mut live = world.open_legacy(&session, "tools/call", json!({ "name": "notify_and_wait" })).await;
    let primer = live.event().await.unwrap().id.unwrap();
    drop(live);
    world.double.gate.notify_one();
    let free = async || world.legacy(&session, "ping", json!({})).await.json()["error"].is_null();
    until_async(free).await;
    let mut again = come_back(&world, &session, &primer).await;
    assert_eq!(json_of(&again.event().await.unwrap())["method"], "notifications/progress");
    assert_eq!(json_of(&again.event().await.unwrap())["id"], 1);
    assert_eq!(again.event().await, None);
}

/// The id is free again once the call is over.
async fn until_async(holds: impl AsyncFn() -> bool) {
    for _ in 0..500 {
        if holds().await {
            return;
        }
    }
    panic!("never");
}

#[tokio::test]
async fn a_call_that_hangs_up_goes_on_and_its_client_comes_back() {
    let world = world().await;
    for first in [false, true] {
        let session = world.initialize("2025-11-25").await;
        let params = json!({ "name": "hang_up", "arguments": { "first": first } });
        let mut live = world.open_legacy(&session, "tools/call", params).await;
        assert_eq!(
            (live.status, &live.headers["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        let (mut last, mut retry, mut messages) = (None, None, 0);
        while let Some(event) = live.event().await {
            last = event.id.or(last);
            retry = event.retry.or(retry);
            messages += usize::from(!event.data.is_empty());
        }
        assert_eq!((retry, messages), (Some(100), usize::from(first)));
        let mut again = come_back(&world, &session, &last.unwrap()).await;
        world.double.gate.notify_one();
        assert_eq!(again.message().await.unwrap()["params"]["progress"], 2);
        assert_eq!(again.message().await.unwrap()["result"]["content"][0]["text"], "hang_up");
        assert_eq!(again.message().await, None);
    }
}

#[tokio::test]
async fn connections_that_cannot_be_resumed_are_not_closed() {
    let world = world().await;
    let session = world.initialize("2025-06-18").await;
    world.double.gate.notify_one();
    let reply = world.legacy(&session, "tools/call", json!({ "name": "hang_up", "arguments": {} })).await;
    assert_eq!(reply.events().len(), 2);
    world.double.gate.notify_one();
    let reply = world.modern("tools/call", json!({ "name": "hang_up", "arguments": {} })).await;
    assert_eq!(reply.events().len(), 2);
}

#[tokio::test]
async fn resuming_a_stream_whose_past_is_lost_is_an_error() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let params = json!({ "name": "notify", "arguments": { "count": 600 } });
    let mut live = world.open_legacy(&session, "tools/call", params).await;
    let primer = live.event().await.unwrap().id.unwrap();
    let mut ids = Vec::new();
    while let Some(event) = live.event().await {
        ids.push(event.id.unwrap());
    }
    assert_eq!(ids.len(), 601);
    let reply = come_back(&world, &session, &primer).await.read().await;
    assert!(reply.body.starts_with(": what came after"), "{}", reply.body);
    let reply = come_back(&world, &session, &ids[500]).await.read().await;
    assert_eq!(reply.events().len(), 100);
}

#[tokio::test]
async fn messages_outside_calls_can_be_resumed() {
    use toolyard_proto::Method;
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let mut live = world.open_get(&[("mcp-session-id", &session)]).await;
    let primer = live.event().await.unwrap();
    assert!(primer.data.is_empty());
    until("the session listens", || !world.double.listeners.lock().is_empty()).await;
    world.double.announce(&Method::TOOLS_CHANGED, None);
    let changed = live.event().await.unwrap();
    drop(live);
    world.double.announce(&Method::PROMPTS_CHANGED, None);
    let mut again = come_back(&world, &session, &changed.id.unwrap()).await;
    assert_eq!(again.message().await.unwrap()["method"], "notifications/prompts/list_changed");
    let mut again = come_back(&world, &session, &primer.id.unwrap()).await;
    assert_eq!(again.message().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_client_that_missed_too_much_outside_of_calls_receives_what_comes_next() {
    use toolyard_proto::Method;
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let mut live = world.open_get(&[("mcp-session-id", &session)]).await;
    let primer = live.event().await.unwrap().id.unwrap();
    until("the session listens", || !world.double.listeners.lock().is_empty()).await;
    for _ in 0..300 {
        world.double.announce(&Method::TOOLS_CHANGED, None);
        live.message().await.unwrap();
    }
    drop(live);
    let mut again = come_back(&world, &session, &primer).await;
    assert!(again.event().await.unwrap().id.is_some(), "a place to come back to");
    world.double.announce(&Method::PROMPTS_CHANGED, None);
    assert_eq!(again.message().await.unwrap()["method"], "notifications/prompts/list_changed");
}
