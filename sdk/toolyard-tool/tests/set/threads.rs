//! Functions that block: each on a thread, and only so many at once.

use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolyard_tool::{ToolSet, tool};

use crate::support::{Client, text};

/// How many functions of a set may block at once.
const MOST: usize = 128;

struct Gate {
    entered: mpsc::UnboundedSender<()>,
    /// Opens when the other end is dropped.
    closed: Mutex<std::sync::mpsc::Receiver<()>>,
}

/// Ignores its cancellation until it is released.
#[tool]
fn stubborn(gate: &Gate) {
    let _ = gate.entered.send(());
    let _ = gate.closed.lock().recv();
}

/// Needs no thread of its own.
#[tool]
async fn quick() -> &'static str {
    "here"
}

/// The answer of a call that should have ended by now. Time does not advance by itself while threads are busy.
async fn ended(mut call: impl Future<Output = Value> + Unpin) -> Value {
    for _ in 0..1_000 {
        if let Poll::Ready(answer) = poll!(&mut call) {
            return answer;
        }
        tokio::task::yield_now().await;
    }
    Value::Null
}

#[tokio::test(start_paused = true)]
async fn functions_that_never_end_take_a_bounded_number_of_threads_and_further_calls_fail() {
    let ((opens, closed), (entered, mut entering)) = (std::sync::mpsc::channel(), mpsc::unbounded_channel());
    let set = ToolSet::new("t", "1")
        .with::<quick>()
        .state(Gate { entered, closed: Mutex::new(closed) })
        .with::<stubborn>();
    let client = Client::newest();
    for _ in 0..MOST {
        let mut call = client.start(&set, "tools/call", json!({ "name": "stubborn" }));
        assert!(poll!(&mut call).is_pending());
        entering.recv().await.unwrap();
    }
    // Their callers have given up, and they run all the same.
    let mut late = Box::pin(client.call(&set, "stubborn", json!({})));
    assert!(poll!(&mut late).is_pending(), "it waits for a thread");
    tokio::time::advance(Duration::from_secs(11)).await;
    let answer = ended(&mut late).await;
    assert_eq!(answer["isError"], true);
    assert_eq!(text(&answer), "128 calls are busy already\nHint: try again when some of them have ended");
    assert_eq!(text(&client.call(&set, "quick", json!({})).await), "here");
    drop(opens);
    assert_eq!(text(&client.call(&set, "stubborn", json!({})).await), "Done.");
    set.end().await;
}
