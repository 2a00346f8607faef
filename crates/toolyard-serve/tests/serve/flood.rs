//! A client on a line that writes as fast as it can and reads nothing: the queue for it stays bounded, and it
//! is disconnected after a while.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use toolyard_serve::Options;

use crate::stream::{Client, call, client};
use crate::support::modern;

const FLOOD: u64 = 20_000;

fn with_id(mut message: Value, id: u64) -> Value {
    message["id"] = id.into();
    message
}

fn ping(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
}

/// Writes until the other side takes no more; how many it took, and the most tasks there were.
async fn flood(client: &mut Client, message: impl Fn(u64) -> Value) -> (u64, usize) {
    let mut most = 0;
    for id in 1..=FLOOD {
        let line = format!("{}\n", message(id));
        if timeout(Duration::from_secs(1), client.send_text(&line)).await.is_err() {
            return (id, most);
        }
        most = most.max(client.scope.tasks());
    }
    (FLOOD, most)
}

async fn check(what: &str, hanging: u64, message: impl Fn(u64) -> Value) {
    let mut client = client(Options::default());
    client.shake_hands("2025-11-25").await;
    for id in 0..hanging {
        client.send(&with_id(call(0, "hang", &json!({})), FLOOD + 1 + id)).await;
    }
    let (taken, most) = flood(&mut client, message).await;
    assert!(taken < 2_500, "{what}: {taken} were taken");
    assert!(most < 1_500, "{what}: {most} tasks");
    // Nothing that was taken is lost once the client reads.
    let mut answered = Vec::new();
    for _ in 1..taken {
        answered.extend(client.next().await["id"].as_u64());
    }
    answered.sort_unstable();
    assert!(answered.iter().copied().eq(1..taken), "{what}: {answered:?}");
}

#[tokio::test(start_paused = true)]
async fn unread_answers_cannot_fill_the_memory() {
    check("pings", 0, ping).await;
    check("modern requests", 0, |id| with_id(modern("tools/list", json!({})), id)).await;
    check("refusals of a session", 1_000, ping).await;
    check("refusals of a modern request", 0, |id| with_id(modern("ping", json!({})), id)).await;
    check("mistakes", 0, |id| json!({ "jsonrpc": "2.0", "id": id })).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_a_byte_now_and_then_is_disconnected_too() {
    use tokio::io::AsyncReadExt;

    let mut client = client(Options::default());
    client.shake_hands("2025-11-25").await;
    flood(&mut client, ping).await;
    let (begun, double) = (Instant::now(), client.double.clone());
    while double.ended.lock().is_empty() {
        tokio::time::sleep(Duration::from_secs(20)).await;
        let _ = client.read.get_mut().read_u8().await;
        assert!(begun.elapsed() < Duration::from_mins(5), "the connection is not closed");
    }
}
