//! Watched resources of an upstream that keeps what it is told: taken back whenever nobody watches any more, and
//! in nobody's way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;
use toolyard_core::Gateway;
use toolyard_proto::{Method, Revision};
use toolyard_transport::AnswerBody;

use crate::health::{hushed, pinged, seconds, state};
use crate::support::{Behaviour, Client, Double, gateway, raw, start};

const OLD: Revision = Revision::NEWEST_LEGACY;

fn watch(client: &Client, uris: &[String]) -> JoinHandle<()> {
    let listening =
        client.send("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": uris } }));
    tokio::spawn(async move { drop(listening.await) })
}

fn offer(double: &Double, uris: &[String]) {
    let resource = |uri: &String| json!({ "uri": uri, "name": uri });
    *double.resources.lock().unwrap() = uris.iter().map(resource).collect();
}

fn told(double: &Double, method: &Method) -> usize {
    double.seen.lock().unwrap().iter().filter(|(seen, _)| seen == method).count()
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
async fn what_is_left_while_the_upstream_is_away_is_taken_back() {
    let (double, hush) = hushed(OLD);
    let uris = ["test://a".to_owned()];
    offer(&double, &uris);
    let gateway = start(&[("a", &double)], pinged);
    let client = Client::new(&gateway, OLD, "a");
    client.tools().await;
    let watching = watch(&client, &uris);
    // Who has never answered a ping is not judged by its silence.
    seconds(12).await;
    assert_eq!(told(&double, &Method::RESOURCES_SUBSCRIBE), 1);
    hush.everything.store(true, Ordering::SeqCst);
    until(&gateway, "retrying").await;
    watching.abort();
    seconds(1).await;
    hush.everything.store(false, Ordering::SeqCst);
    until(&gateway, "active").await;
    assert_eq!(told(&double, &Method::RESOURCES_UNSUBSCRIBE), 1);
    assert_eq!(double.connects.load(Ordering::SeqCst), 1, "the link was kept, and what it was told with it");
}

#[tokio::test(start_paused = true)]
async fn who_leaves_many_resources_keeps_nobody_from_watching_others() {
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
    assert_eq!(told(&double, &Method::RESOURCES_UNSUBSCRIBE), 200);
}
