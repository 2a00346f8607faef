//! Tasks of an upstream that all clients share: each client sees its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_core::{Gateway, Sharing};
use toolyard_model::{AnswerBody, LinkEvent};
use toolyard_proto::{CallError, Method, Notification, Revision};

use crate::support::{Behaviour, Client, Double, gateway, raw, start};

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
    assert_eq!(of_ann["tasks"][0]["kept"].to_string(), "1.0", "what is shown is unchanged");
    assert_eq!(ids(&listed(&bob).await), ["t2"]);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let own = bob.ask(method, json!({ "taskId": second })).await.unwrap();
        assert_eq!(own["taskId"], "t2", "{method}");
        let asked = double.seen.lock().len();
        let refused = bob.ask(method, json!({ "taskId": first })).await.unwrap_err();
        assert_eq!((refused.code(), refused.message().contains("unknown task")), (-32602, true), "{method}");
        assert_eq!(double.seen.lock().len(), asked, "{method}: the upstream is not asked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_belongs_to_one_client_in_any_view() {
    let gateway = gateway(&[("a", &worker())]);
    let [everything, alone] = clients(&gateway, ["", "a"]).await;
    assert_eq!(make(&everything, "a__t").await, "a.t1");
    assert_eq!(make(&alone, "t").await, "t2");
    assert_eq!(ids(&listed(&alone).await), ["t2"]);
    assert!(everything.ask("tasks/get", json!({ "taskId": "a.t1" })).await.is_ok());
    assert_eq!(everything.ask("tasks/get", json!({ "taskId": "a.t2" })).await.unwrap_err().code(), -32602);
    assert_eq!(alone.ask("tasks/cancel", json!({ "taskId": "t1" })).await.unwrap_err().code(), -32602);
    // A task that no client is known to have made may be known to the upstream.
    assert!(alone.ask("tasks/get", json!({ "taskId": "t9" })).await.is_ok());
}

/// How many owners are known for each upstream.
const OWNERS: usize = 10_000;

#[tokio::test(start_paused = true)]
async fn a_task_whose_owner_was_forgotten_is_open_to_no_client() {
    let double = worker();
    let gateway = gateway(&[("a", &double)]);
    let [ann, bob] = clients(&gateway, ["a", "a"]).await;
    assert!(
        bob.ask("tasks/get", json!({ "taskId": "t0" })).await.is_ok(),
        "it may be older than the gateway"
    );
    assert_eq!(make(&ann, "t").await, "t1");
    for _ in 0..OWNERS {
        make(&ann, "t").await;
    }
    for (client, id, is_known) in
        [(&bob, "t1", false), (&bob, "t0", false), (&bob, "t2", false), (&ann, "t2", true)]
    {
        let asked = double.seen.lock().len();
        let answer = client.ask("tasks/get", json!({ "taskId": id })).await;
        assert_eq!(answer.is_ok(), is_known, "{id}: {answer:?}");
        assert_eq!(double.seen.lock().len() - asked, usize::from(is_known), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_task_is_sent_to_the_client_that_made_it() {
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
    let received =
        |client: &Client| client.inbox.methods().contains(&"notifications/tasks/status".to_owned());
    assert_eq!(clients.each_ref().map(received), [true, false]);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_task_reaches_no_other_client_before_its_owner_is_known() {
    let hangs: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let double = Double::with(OLD, &["t"], hangs);
    let gateway = gateway(&[("a", &double)]);
    let clients = clients(&gateway, ["a", "a"]).await;
    for client in &clients {
        tokio::spawn(
            client.send("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })),
        );
    }
    let params = json!({ "name": "t", "arguments": {}, "task": {} });
    let making = tokio::spawn(clients[0].send("tools/call", params));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let tell = async |id: &str| {
        let status =
            Notification::new(Method::new("notifications/tasks/status"), raw(json!({ "taskId": id })));
        double.say(LinkEvent::Notification(None, status));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let is_status = |method: &String| method == "notifications/tasks/status";
        clients.each_ref().map(|client| client.inbox.methods().into_iter().filter(is_status).count())
    };
    assert_eq!(tell("t1").await, [0, 0], "it may be the one that is being made");
    making.abort();
    assert_eq!(tell("t0").await, [1, 1], "one from before the gateway was started");
}

#[tokio::test(start_paused = true)]
async fn an_authenticated_client_finds_its_tasks_in_any_session() {
    let gateway = gateway(&[("a", &worker())]);
    let [ann, again, bob] = ["ann", "ann", "bob"].map(|name| Client::named(&gateway, OLD, "a", name));
    ann.tools().await;
    let task = make(&ann, "t").await;
    assert_eq!(ids(&listed(&again).await), [&*task]);
    again.ask("tasks/result", json!({ "taskId": task })).await.unwrap();
    assert_eq!(ids(&listed(&bob).await), [] as [&str; 0]);
    assert_eq!(bob.ask("tasks/get", json!({ "taskId": task })).await.unwrap_err().code(), -32602);
}

/// A server with a process for each client. Each process counts its tasks from one, and names its client in results.
fn processes() -> Gateway {
    let behaviour: Behaviour = Arc::new(move |request, _| {
        let whose = format!("{:?}", request.origin.client);
        let task = json!({ "taskId": "t1", "status": "completed" });
        let result = match request.method.as_str() {
            "tools/call" => json!({ "task": task }),
            "tasks/result" => json!({ "content": [{ "type": "text", "text": whose }] }),
            _ if request.params.at(&["taskId"]).and_then(|id| id.as_string()).as_deref() == Some("t1") => {
                task
            }
            _ => return Box::pin(async { Err(CallError::invalid_params("there is no such task")) }),
        };
        Box::pin(async move { Ok(AnswerBody::Whole(raw(result), OLD)) })
    });
    let double = Double::with(OLD, &["t"], behaviour);
    double.tools.lock()[0]["execution"] = json!({ "taskSupport": "required" });
    start(&[("a", &double)], |plan| plan.upstreams[0].sharing = Sharing::Client)
}

#[tokio::test(start_paused = true)]
async fn tasks_of_two_processes_that_give_them_the_same_id_are_distinguished() {
    const NEW: Revision = Revision::NEWEST;
    let gateway = processes();
    Client::new(&gateway, NEW, "").tools().await;
    for view in ["", "a"] {
        let ann_and_bob = ["ann", "bob"].map(|name| Client::named(&gateway, NEW, view, name));
        for mut clients in [[(); 2].map(|()| Client::new(&gateway, NEW, view)), ann_and_bob] {
            let (mut made, tool) = (Vec::new(), if view.is_empty() { "a__t" } else { "t" });
            for client in &mut clients {
                client.declare(json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }));
                made.push(client.call(tool, json!({})).await.unwrap()["taskId"].clone());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_ne!(made[0], made[1]);
            for (client, id) in clients.iter().zip(&made) {
                let got = client.ask("tasks/get", json!({ "taskId": id })).await.unwrap();
                assert_eq!((&got["taskId"], &got["status"]), (id, &json!("completed")), "{got}");
                let whose = got["result"]["content"][0]["text"].as_str().unwrap();
                assert_eq!(whose, format!("{:?}", client.key()), "{got}");
                client.ask("tasks/cancel", json!({ "taskId": id })).await.unwrap();
            }
        }
    }
}

/// A task that only a legacy server makes, as a modern client sees it in the end.
async fn ended(status: &'static str, outcome: Result<Value, i32>) -> Value {
    let behaviour: Behaviour = Arc::new(move |request, _| {
        let about = |status: &str| json!({ "taskId": "t1", "status": status, "ttl": 60_000 });
        let result = match request.method.as_str() {
            "tools/call" => Ok(json!({ "task": about("working") })),
            "tasks/result" => outcome.clone(),
            _ => Ok(about(status)),
        };
        Box::pin(async move {
            match result {
                Ok(result) => Ok(AnswerBody::Whole(raw(result), OLD)),
                Err(code) => Err(CallError::reported(raw(json!({ "code": code, "message": "no" })))),
            }
        })
    });
    let double = Double::with(OLD, &["t"], behaviour);
    double.tools.lock()[0]["execution"] = json!({ "taskSupport": "required" });
    let gateway = gateway(&[("a", &double)]);
    let mut client = Client::new(&gateway, Revision::NEWEST, "a");
    client.declare(json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }));
    client.tools().await;
    let made = client.call("t", json!({})).await.unwrap();
    assert_eq!(made["resultType"], "task", "{made}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.ask("tasks/get", json!({ "taskId": made["taskId"] })).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_finished_task_of_a_legacy_server_is_completed_with_its_result() {
    let good = json!({ "content": [{ "type": "text", "text": "done" }] });
    let bad = json!({ "content": [{ "type": "text", "text": "broken" }], "isError": true });
    // To a legacy server a tool that failed is a failed task; to a modern client it has completed with an error.
    for (status, result) in [("completed", &good), ("failed", &bad), ("failed", &good)] {
        let task = ended(status, Ok(result.clone())).await;
        assert_eq!((&task["status"], &task["result"]), (&json!("completed"), result), "{status}: {task}");
        assert!(task.get("error").is_none(), "{task}");
    }
    let task = ended("failed", Err(-32000)).await;
    assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32000)), "{task}");
    assert!(task.get("result").is_none(), "{task}");
}
