//! Tasks of an upstream that all clients share: each client sees its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_core::Gateway;
use toolyard_proto::{Method, Notification, Revision};
use toolyard_transport::{AnswerBody, LinkEvent};

use crate::support::{Behaviour, Client, Double, gateway, raw};

const OLD: Revision = Revision::NEWEST_LEGACY;

/// Makes tasks `t1`, `t2`, …, and lists all there are.
fn worker() -> Arc<Double> {
    let made = AtomicU64::new(0);
    let behaviour: Behaviour = Arc::new(move |request, _| {
        let task = |id: &str| json!({ "taskId": id, "status": "working", "kept": 1.0 });
        let id = request.params.member("taskId").and_then(|id| id.as_string()).unwrap_or_default();
        let result = match request.method.as_str() {
            "tools/call" => {
                json!({ "task": task(&format!("t{}", made.fetch_add(1, Ordering::SeqCst) + 1)) })
            }
            "tasks/list" => {
                let all = (1..=made.load(Ordering::SeqCst)).map(|n| task(&format!("t{n}")));
                json!({ "tasks": all.collect::<Vec<_>>(), "nextCursor": "more" })
            }
            _ => task(&id),
        };
        Box::pin(async move { Ok(AnswerBody::Whole(raw(result), OLD)) })
    });
    Double::with(OLD, &["t"], behaviour)
}

async fn make(client: &Client, tool: &str) -> String {
    let params = json!({ "name": tool, "arguments": {}, "task": { "ttl": 60_000 } });
    let made = client.ask("tools/call", params).await.unwrap();
    made["task"]["taskId"].as_str().unwrap().to_owned()
}

async fn listed(client: &Client) -> Value {
    client.ask("tasks/list", json!({})).await.unwrap()
}

fn ids(listed: &Value) -> Vec<&str> {
    listed["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].as_str().unwrap()).collect()
}

async fn clients(gateway: &Gateway, views: [&str; 2]) -> [Client; 2] {
    let clients = views.map(|view| Client::new(gateway, OLD, view));
    clients[0].tools().await;
    clients
}

#[tokio::test(start_paused = true)]
async fn each_client_sees_and_asks_after_its_own_tasks_only() {
    let double = worker();
    let gateway = gateway(&[("a", &double)]);
    let [ann, bob] = clients(&gateway, ["a", "a"]).await;
    let (first, second, third) = (make(&ann, "t").await, make(&bob, "t").await, make(&ann, "t").await);
    assert_eq!([&*first, &second, &third], ["t1", "t2", "t3"]);
    let of_ann = listed(&ann).await;
    assert_eq!((ids(&of_ann), &of_ann["nextCursor"]), (vec!["t1", "t3"], &json!("more")));
    assert_eq!(of_ann["tasks"][0]["kept"].to_string(), "1.0", "what is shown is as it was said");
    assert_eq!(ids(&listed(&bob).await), ["t2"]);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let own = bob.ask(method, json!({ "taskId": second })).await.unwrap();
        assert_eq!(own["taskId"], "t2", "{method}");
        let asked = double.seen.lock().unwrap().len();
        let refused = bob.ask(method, json!({ "taskId": first })).await.unwrap_err();
        assert_eq!((refused.code(), refused.message.contains("unknown task")), (-32602, true), "{method}");
        assert_eq!(double.seen.lock().unwrap().len(), asked, "{method}: the upstream is not asked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_nobody_elses_in_any_view() {
    let gateway = gateway(&[("a", &worker())]);
    let [everything, alone] = clients(&gateway, ["", "a"]).await;
    assert_eq!(make(&everything, "a__t").await, "a.t1");
    assert_eq!(make(&alone, "t").await, "t2");
    assert_eq!(ids(&listed(&alone).await), ["t2"]);
    assert!(everything.ask("tasks/get", json!({ "taskId": "a.t1" })).await.is_ok());
    assert_eq!(everything.ask("tasks/get", json!({ "taskId": "a.t2" })).await.unwrap_err().code(), -32602);
    assert_eq!(alone.ask("tasks/cancel", json!({ "taskId": "t1" })).await.unwrap_err().code(), -32602);
    // What nobody is known to have made, the upstream may know.
    assert!(alone.ask("tasks/get", json!({ "taskId": "t9" })).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn how_a_task_stands_is_told_to_who_made_it() {
    let double = worker();
    let gateway = gateway(&[("a", &double)]);
    let clients = clients(&gateway, ["a", "a"]).await;
    let listen = json!({ "notifications": { "toolsListChanged": true } });
    for client in &clients {
        tokio::spawn(client.send("subscriptions/listen", listen.clone()));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let task = make(&clients[0], "t").await;
    let status = Notification::new(Method::new("notifications/tasks/status"), raw(json!({ "taskId": task })));
    double.say(LinkEvent::Notification(None, status));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let heard = |client: &Client| client.inbox.methods().contains(&"notifications/tasks/status".to_owned());
    assert_eq!(clients.each_ref().map(heard), [true, false]);
}

#[tokio::test(start_paused = true)]
async fn who_has_proven_who_it_is_finds_its_tasks_in_whatever_session() {
    let gateway = gateway(&[("a", &worker())]);
    let [ann, again, bob] = ["ann", "ann", "bob"].map(|name| Client::named(&gateway, OLD, "a", name));
    ann.tools().await;
    let task = make(&ann, "t").await;
    assert_eq!(ids(&listed(&again).await), [&*task]);
    again.ask("tasks/result", json!({ "taskId": task })).await.unwrap();
    assert_eq!(ids(&listed(&bob).await), [] as [&str; 0]);
    assert_eq!(bob.ask("tasks/get", json!({ "taskId": task })).await.unwrap_err().code(), -32602);
}
