//! Another plan while calls are under way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use toolyard_core::Reloaded;
use toolyard_model::AnswerBody;
use toolyard_proto::Revision;

use crate::support::{Attempt, Behaviour, Client, Double, gateway, plan, raw};

const NEW: Revision = Revision::NEWEST;

fn names(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn reload_keeps_unchanged_replaces_changed_and_removes_missing_upstreams() {
    let (stays, before, after, gone) = (
        Double::new(NEW, &["s"]),
        Double::new(NEW, &["c"]),
        Double::new(NEW, &["c", "d"]),
        Double::new(NEW, &["g"]),
    );
    let gateway = gateway(&[("stays", &stays), ("changes", &before), ("gone", &gone)]);
    let client = Client::new(&gateway, NEW, "");
    assert_eq!(client.tools().await, ["stays__s", "changes__c", "gone__g"]);
    let listener = Client::new(&gateway, NEW, "");
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let listening = tokio::spawn(listener.send("subscriptions/listen", filter));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let done = gateway.reload(plan(&[("stays", &stays), ("changes", &after), ("added", &gone)]));
    assert_eq!(
        done,
        Reloaded { added: names(&["added"]), changed: names(&["changes"]), removed: names(&["gone"]) }
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(client.tools().await, ["stays__s", "changes__c", "changes__d", "added__g"]);
    assert_eq!(stays.connects.load(Ordering::SeqCst), 1);
    assert!(listener.inbox.methods().contains(&"notifications/tools/list_changed".to_owned()));
    assert_eq!(client.call("gone__g", json!({})).await.unwrap_err().code(), -32602);
    assert!(
        Client::new(&gateway, NEW, "gone").ask("tools/list", json!({})).await.is_err(),
        "its view is gone too"
    );
    listening.abort();
}

#[tokio::test(start_paused = true)]
async fn a_call_under_way_is_finished_by_the_link_it_began_on() {
    let slow: Behaviour = Arc::new(|_, _| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(AnswerBody::ours(raw(json!({ "by": "the old one" }))))
        })
    });
    let (old, new) = (Double::with(NEW, &["t"], slow), Double::new(NEW, &["t"]));
    let gateway = gateway(&[("a", &old)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let call = client.call("a__t", json!({}));
    let change = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.reload(plan(&[("a", &new)]));
    };
    let (answer, ()) = tokio::join!(call, change);
    assert_eq!(answer.unwrap()["by"], "the old one");
    client.call("a__t", json!({})).await.unwrap();
    assert_eq!(new.seen.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn five_hundred_reloads_under_load_lose_no_call() {
    let quick: Behaviour = Arc::new(|request, _| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(3)).await;
            Ok(AnswerBody::ours(raw(json!({ "n": request.params.at(&["arguments", "n"]) }))))
        })
    });
    let doubles: Vec<Arc<Double>> = (0..2).map(|_| Double::with(NEW, &["t"], quick.clone())).collect();
    let gateway = gateway(&[("a", &doubles[0])]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let reloads = async {
        for n in 0..500 {
            gateway.reload(plan(&[("a", &doubles[(n + 1) % 2])]));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let calls = join_all((0..8).map(|worker| {
        let client = &client;
        async move {
            for n in 0..200 {
                let answer = client.call("a__t", json!({ "n": worker * 1000 + n })).await.unwrap();
                assert_eq!(answer["n"], worker * 1000 + n, "{answer}");
            }
        }
    }));
    tokio::join!(reloads, calls);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_move_to_the_successor() {
    check_watch(0, Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_outlasts_a_successor_that_is_slow_to_come() {
    check_watch(4, Duration::from_mins(1)).await;
}

/// Watches a resource while its server is changed for one that fails so often, and looks after this time.
async fn check_watch(failures: usize, wait: Duration) {
    let doubles: Vec<Arc<Double>> = (0..2).map(|_| Double::new(Revision::NEWEST_LEGACY, &[])).collect();
    for double in &doubles {
        double.resources.lock().push(json!({ "uri": "test://r", "name": "r" }));
    }
    doubles[1].attempts.lock().extend((0..failures).map(|_| Attempt::Fails));
    let gateway = gateway(&[("a", &doubles[0])]);
    let client = Client::new(&gateway, NEW, "a");
    client.names("resources/list", "resources", "uri").await;
    let filter = json!({ "notifications": { "resourceSubscriptions": ["test://r"] } });
    let listening = tokio::spawn(client.send("subscriptions/listen", filter));
    tokio::time::sleep(Duration::from_secs(1)).await;
    gateway.reload(plan(&[("a", &doubles[1])]));
    tokio::time::sleep(wait).await;
    let words = ["notifications/subscriptions/acknowledged", "notifications/resources/updated"];
    assert_eq!(client.inbox.methods(), words, "changes in between were missed");
    client.inbox.received.lock().clear();
    let params = raw(json!({ "uri": "test://r" }));
    doubles[1].say(toolyard_model::LinkEvent::Notification(
        None,
        toolyard_proto::Notification::new(toolyard_proto::Method::RESOURCE_UPDATED, params),
    ));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.inbox.methods(), ["notifications/resources/updated"]);
    listening.abort();
}

#[tokio::test(start_paused = true)]
async fn a_changed_timeout_applies_without_a_new_connection() {
    let slow: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let double = Double::with(NEW, &["t"], slow);
    let gateway = gateway(&[("a", &double)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let mut edited = plan(&[("a", &double)]);
    edited.upstreams[0].policy.timeouts.idle = Duration::from_secs(3);
    edited.upstreams[0].policy.roots = vec!["file:///srv".into()];
    edited.upstreams[0].policy.pinged = true;
    assert_eq!(gateway.reload(edited), Reloaded { changed: names(&["a"]), ..Reloaded::default() });
    let begun = tokio::time::Instant::now();
    let answer = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(answer["_meta"]["dev.toolyard/error"]["kind"], "timeout", "{answer}");
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(double.connects.load(Ordering::SeqCst), 1);
    let pings = double.seen.lock().iter().filter(|(method, _)| method.as_str() == "server/discover").count();
    assert!(pings > 2, "it is pinged from now on: {pings}");
}

#[tokio::test(start_paused = true)]
async fn a_changed_command_is_probed_again() {
    let (before, after) = (Double::new(Revision::NEWEST_LEGACY, &["t"]), Double::new(NEW, &["t"]));
    let gateway = gateway(&[("a", &before)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    gateway.reload(plan(&[("a", &after)]));
    assert_eq!(client.tools().await, ["a__t"], "until the new one has been read, the old list is shown");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*after.expected.lock(), [None]);
    after.hang_up("gone");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*after.expected.lock(), [None, Some(NEW)]);
}
