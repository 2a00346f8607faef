//! Subscriptions at an upstream that keeps them: ended with their last client, and in no other client's
//! way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use toolyard_core::Gateway;
use toolyard_model::AnswerBody;
use toolyard_proto::{Method, Revision};

use crate::health::{pinged, seconds, silenceable, state};
use crate::support::{Behaviour, Client, Double, gateway, raw, start};

const OLD: Revision = Revision::NEWEST_LEGACY;

fn watch(client: &Client, uris: &[String]) -> JoinHandle<()> {
    let listening =
        client.send("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": uris } }));
    tokio::spawn(async move { drop(listening.await) })
}

fn offer(double: &Double, uris: &[String]) {
    let resource = |uri: &String| json!({ "uri": uri, "name": uri });
    *double.resources.lock() = uris.iter().map(resource).collect();
}

fn count_of(double: &Double, method: &Method) -> usize {
    double.seen.lock().iter().filter(|(seen, _)| seen == method).count()
}

async fn until(gateway: &Gateway, phase: &str) {
    for _ in 0..120 {
        if state(gateway).0 == phase {
            return;
        }
        seconds(1).await;
    }
    panic!("never {phase}");
}

#[tokio::test(start_paused = true)]
async fn subscriptions_dropped_while_the_upstream_is_away_are_unsubscribed() {
    let (double, silence) = silenceable(OLD);
    let uris = ["test://a".to_owned()];
    offer(&double, &uris);
    let gateway = start(&[("a", &double)], pinged);
    let client = Client::new(&gateway, OLD, "a");
    client.tools().await;
    let watching = watch(&client, &uris);
    // An upstream that has never answered a ping is not judged by its silence.
    seconds(12).await;
    assert_eq!(count_of(&double, &Method::RESOURCES_SUBSCRIBE), 1);
    silence.everything.store(true, Ordering::SeqCst);
    until(&gateway, "retrying").await;
    watching.abort();
    seconds(1).await;
    silence.everything.store(false, Ordering::SeqCst);
    until(&gateway, "active").await;
    assert_eq!(count_of(&double, &Method::RESOURCES_UNSUBSCRIBE), 1);
    assert_eq!(double.connects.load(Ordering::SeqCst), 1, "the link was kept, and its state with it");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_many_resources_keeps_no_other_from_watching() {
    let slow: Behaviour = Arc::new(|request, _| {
        let takes = if request.method == Method::RESOURCES_UNSUBSCRIBE { 500 } else { 1 };
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(takes)).await;
            Ok(AnswerBody::Whole(raw(json!({})), OLD))
        })
    });
    let double = Double::with(OLD, &["t"], slow);
    let uris: Vec<String> = (0..=200).map(|number| format!("test://{number}")).collect();
    offer(&double, &uris);
    let gateway = gateway(&[("a", &double)]);
    let [ann, bob] = [(); 2].map(|()| Client::new(&gateway, OLD, "a"));
    ann.tools().await;
    let watching = watch(&ann, &uris[..200]);
    seconds(2).await;
    assert_eq!(ann.inbox.methods(), ["notifications/subscriptions/acknowledged"]);
    watching.abort();
    seconds(1).await;
    let _watching = watch(&bob, &uris[200..]);
    seconds(9).await;
    assert_eq!(bob.inbox.methods(), ["notifications/subscriptions/acknowledged"]);
    assert_eq!(count_of(&double, &Method::RESOURCES_UNSUBSCRIBE), 200);
}

/// A server that takes its time to begin watching, even if its client does not wait any more, and none to end that.
fn thoughtful(takes: u64) -> (Arc<Double>, Arc<Mutex<Vec<String>>>) {
    let watched = Arc::<Mutex<Vec<String>>>::default();
    let kept = watched.clone();
    let behaviour: Behaviour = Arc::new(move |request, _| {
        let uri = request.params.member("uri").and_then(|uri| uri.as_string()).unwrap_or_default();
        let (watched, begins) = (kept.clone(), request.method == Method::RESOURCES_SUBSCRIBE);
        let work = tokio::spawn(async move {
            if begins {
                seconds(takes).await;
                watched.lock().push(uri);
            } else {
                watched.lock().retain(|watched| *watched != uri);
            }
        });
        Box::pin(async move {
            work.await.unwrap();
            Ok(AnswerBody::Whole(raw(json!({})), OLD))
        })
    });
    (Double::with(OLD, &["t"], behaviour), watched)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_the_server_begins_to_watch_leaves_nothing_watched() {
    // Earlier and later than the client waits for the answer.
    for takes in [5, 25] {
        let (double, watched) = thoughtful(takes);
        let uris = ["test://a".to_owned()];
        offer(&double, &uris);
        let gateway = gateway(&[("a", &double)]);
        let [ann, bob] = [(); 2].map(|()| Client::new(&gateway, OLD, "a"));
        ann.tools().await;
        let watching = watch(&ann, &uris);
        seconds(1).await;
        watching.abort();
        seconds(60).await;
        assert_eq!(count_of(&double, &Method::RESOURCES_SUBSCRIBE), 1);
        assert_eq!(*watched.lock(), Vec::<String>::new(), "it takes {takes} s");
        // A client that is refused because it takes so long has left, too.
        let _watching = watch(&bob, &uris);
        seconds(60).await;
        let is_watched = takes < 10;
        assert_eq!(watched.lock().len(), usize::from(is_watched), "it takes {takes} s");
        assert_eq!(bob.inbox.methods().len(), usize::from(is_watched));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_while_the_server_begins_to_watch_gets_updates() {
    let (double, watched) = thoughtful(5);
    let uris = ["test://a".to_owned()];
    offer(&double, &uris);
    let gateway = gateway(&[("a", &double)]);
    let client = Client::new(&gateway, OLD, "a");
    client.tools().await;
    let watching = watch(&client, &uris);
    seconds(1).await;
    watching.abort();
    seconds(1).await;
    let _watching = watch(&client, &uris);
    seconds(60).await;
    assert!(!watched.lock().is_empty());
    assert_eq!(client.inbox.methods(), ["notifications/subscriptions/acknowledged"]);
}
