//! How many bytes unanswered calls may hold.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolyard_proto::Revision;

use crate::health::silenceable;
use crate::support::{Client, gateway};

const NEW: Revision = Revision::NEWEST;
/// The largest that a client can send.
const LARGE: usize = 16 * 1024 * 1024 - 1024;

async fn start(client: &Client, bytes: usize) -> JoinHandle<()> {
    let params = json!({ "name": "a__t", "arguments": { "text": "x".repeat(bytes) } });
    let call = client.send("tools/call", params);
    let running = tokio::spawn(async move { drop(call.await) });
    tokio::time::sleep(Duration::from_millis(1)).await;
    running
}

async fn call(client: &Client, bytes: usize) -> Value {
    client.call("a__t", json!({ "text": "x".repeat(bytes) })).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_not_answered_hold_only_so_many_bytes_and_the_next_is_refused() {
    let ((double, silence), (other, _)) = (silenceable(NEW), silenceable(NEW));
    let gateway = gateway(&[("a", &double), ("b", &other)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    silence.everything.store(true, Ordering::SeqCst);
    let mut running = Vec::new();
    for _ in 0..8 {
        running.push(start(&client, LARGE).await);
    }
    let calls = |double: &crate::support::Double| double.seen.lock().len();
    assert_eq!(calls(&double), 8);
    for bytes in [LARGE, 64 * 1024 + 1] {
        let refused = call(&client, bytes).await;
        let about = &refused["_meta"]["dev.toolyard/error"];
        assert_eq!((&about["kind"], &about["retry"]), (&json!("limit"), &json!("always")), "{refused}");
        assert!(
            refused["content"][0]["text"].as_str().unwrap().contains("upstream `a` has calls of 128 MiB")
        );
    }
    assert_eq!(calls(&double), 8, "it has not seen them");
    // A small call finds room in any case.
    start(&client, 60 * 1024).await.abort();
    assert_eq!(calls(&double), 9);
    // Other upstreams are not concerned.
    let elsewhere = client.call("b__t", json!({ "text": "x".repeat(LARGE) })).await.unwrap();
    assert!(elsewhere["isError"].is_null());
    // A call that ends makes room, however it ends.
    running.swap_remove(3).abort();
    tokio::time::sleep(Duration::from_millis(1)).await;
    running.push(start(&client, LARGE).await);
    assert_eq!(calls(&double), 10);
    // All of them time out.
    tokio::time::sleep(Duration::from_mins(1)).await;
    silence.everything.store(false, Ordering::SeqCst);
    assert!(call(&client, LARGE).await["isError"].is_null());
    assert_eq!(gateway.upstreams()[1].calls(), 0);
}
