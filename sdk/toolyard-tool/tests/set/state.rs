//! State: made once, on the first call if wished; sets with different state joined.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use toolyard_tool::{ToolError, ToolSet, tool};

use crate::support::{Client, text};

struct Counter(AtomicUsize);

/// Counts calls.
#[tool]
async fn count(counter: &Counter) -> usize {
    counter.0.fetch_add(1, Ordering::SeqCst) + 1
}

struct Name(&'static str);

/// Returns its name.
#[tool]
async fn name(name: &Name) -> &'static str {
    name.0
}

#[tokio::test]
async fn lazy_state_is_made_by_the_first_call_and_only_once() {
    let made = Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let set = ToolSet::new("t", "1")
        .state_with(move || {
            let attempt = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                if attempt == 0 { Err(ToolError::new("not yet")) } else { Ok(Counter(AtomicUsize::new(0))) }
            }
        })
        .with::<count>();
    let client = Client::newest();
    client.request(&set, "tools/list", json!({})).await.unwrap();
    client.request(&set, "server/discover", json!({})).await.unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 0, "listing costs nothing");
    assert_eq!(text(&client.call(&set, "count", json!({})).await), "not yet");
    for expected in ["1", "2", "3"] {
        assert_eq!(text(&client.call(&set, "count", json!({})).await), expected);
    }
    assert_eq!(made.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn state_that_takes_longer_than_its_first_calls_wait_is_made_once_all_the_same() {
    let made = Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let slowly = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(Counter(AtomicUsize::new(0)))
        }
    };
    let set = ToolSet::new("t", "1").state_with(slowly).with::<count>();
    let client = Client::newest();
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers
            .push(tokio::time::timeout(Duration::from_secs(4), client.call(&set, "count", json!({}))).await);
    }
    let answers: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok().map(text)).collect();
    assert_eq!(answers, [None, None, Some("1")]);
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn joined_sets_keep_their_own_state() {
    let names = ToolSet::new("names", "1").state(Name("Ann")).with::<name>();
    let set = ToolSet::new("all", "1").state(Counter(AtomicUsize::new(0))).with::<count>().join(names);
    assert_eq!(set.tool_names().collect::<Vec<_>>(), ["count", "name"]);
    let client = Client::newest();
    assert_eq!(text(&client.call(&set, "name", json!({})).await), "Ann");
    assert_eq!(text(&client.call(&set, "count", json!({})).await), "1");
}

#[tokio::test]
async fn a_set_in_memory_is_an_upstream() {
    let set = Arc::new(ToolSet::new("t", "1").instructions("Hi.").state(Name("Ann")).with::<name>());
    let mut connected = set.connect();
    let greeting = connected.link.greeting();
    assert_eq!(greeting.instructions.as_ref().unwrap().as_str(), "\"Hi.\"");
    assert!(greeting.capabilities.member("tools").is_some());
    connected.link.close().await;
    assert!(matches!(connected.events.recv().await, Some(toolyard_model::LinkEvent::Closed(_))));
}
