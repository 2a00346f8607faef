//! Tasks of a modern upstream for clients of 2025-11-25, which ask for them themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_core::Gateway;
use toolyard_model::AnswerBody;
use toolyard_proto::Revision;

use crate::support::{Behaviour, Client, Double, gateway, raw};

const OLD: Revision = Revision::V2025_11_25;
const NEW: Revision = Revision::NEWEST;
/// How often a task is looked after before it is done: for longer than a call may be silent.
const LONG: u64 = 100;

fn task(id: &str, status: &str) -> Value {
    json!({
        "taskId": id, "status": status, "createdAt": "2026-07-28T00:00:00.000Z",
        "lastUpdatedAt": "2026-07-28T00:00:00.000Z", "ttlMs": 60_000, "pollIntervalMs": 1_000,
    })
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// Makes tasks `t1`, `t2`, …, each of which asks once and takes long; `quick` is answered at once.
fn worker() -> Arc<Double> {
    let (made, looked, answered) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let cancelled = AtomicBool::new(false);
    let behaviour: Behaviour = Arc::new(move |request, _| {
        let id = request.params.member("taskId").and_then(|id| id.as_string()).unwrap_or_default();
        let knows_tasks = request.params.as_str().contains("io.modelcontextprotocol/tasks");
        let result = match request.method.as_str() {
            "tools/call" if request.params.as_str().contains("quick") => text("at once"),
            "tools/call" => {
                assert!(knows_tasks, "a client that asks for a task knows them");
                assert!(request.params.member("task").is_none(), "which is not how they are asked for");
                let mut task = task(&format!("t{}", made.fetch_add(1, Ordering::SeqCst) + 1), "working");
                task["resultType"] = "task".into();
                task
            }
            "tasks/update" => {
                answered.store(true, Ordering::SeqCst);
                json!({})
            }
            "tasks/cancel" => {
                cancelled.store(true, Ordering::SeqCst);
                json!({})
            }
            _ if cancelled.load(Ordering::SeqCst) => task(&id, "cancelled"),
            _ if looked.fetch_add(1, Ordering::SeqCst) < LONG => task(&id, "working"),
            _ if !answered.load(Ordering::SeqCst) => {
                let mut task = task(&id, "input_required");
                let params = json!({ "message": "Sure?", "requestedSchema": { "type": "object" } });
                task["inputRequests"] = json!({ "q": { "method": "elicitation/create", "params": params } });
                task
            }
            _ => {
                let mut task = task(&id, "completed");
                task["result"] = text("in the end");
                task
            }
        };
        Box::pin(async move { Ok(AnswerBody::Whole(raw(result), NEW)) })
    });
    let double = Double::with(NEW, &["slow", "quick"], behaviour);
    for tool in &mut *double.tools.lock() {
        tool["execution"] = json!({ "taskSupport": "optional" });
    }
    double
}

async fn client(gateway: &Gateway, view: &str) -> Client {
    let mut client = Client::new(gateway, OLD, view);
    client.declare(json!({ "elicitation": {} }));
    *client.inbox.reply.lock() = Some(json!({ "action": "accept", "content": {} }));
    client.tools().await;
    client
}

async fn make(client: &Client, tool: &str) -> Value {
    let params = json!({ "name": tool, "arguments": {}, "task": { "ttl": 60_000 } });
    client.ask("tools/call", params).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_for_a_task_gets_the_upstreams_own_and_waits_for_its_result_as_long_as_it_takes() {
    for (view, tool, id) in [("a", "slow", "t1"), ("", "a__slow", "a.t1")] {
        let gateway = gateway(&[("a", &worker())]);
        let client = client(&gateway, view).await;
        let made = make(&client, tool).await;
        let expected = json!({
            "taskId": id, "status": "working", "createdAt": "2026-07-28T00:00:00.000Z",
            "lastUpdatedAt": "2026-07-28T00:00:00.000Z", "ttl": 60_000, "pollInterval": 1_000,
        });
        assert_eq!(made, json!({ "task": expected }));
        let about = json!({ "taskId": id });
        assert_eq!(client.ask("tasks/get", about.clone()).await.unwrap(), expected);
        let begun = tokio::time::Instant::now();
        let result = client.ask("tasks/result", about.clone()).await.unwrap();
        assert!(begun.elapsed() > Duration::from_secs(90), "longer than a call may be silent");
        assert_eq!(result["content"], text("in the end")["content"]);
        assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], about);
        let asked = client.inbox.asked.lock();
        let params: Value = asked[0].params.as_ref().unwrap().read().unwrap();
        assert_eq!(
            (asked.len(), &params["_meta"]["io.modelcontextprotocol/related-task"]),
            (1, &about),
            "it names the task that it belongs to"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_at_once_is_a_task_that_is_over() {
    let gateway = gateway(&[("a", &worker())]);
    let client = client(&gateway, "a").await;
    let made = make(&client, "quick").await;
    let about = json!({ "taskId": made["task"]["taskId"] });
    assert_eq!(made["task"]["status"], "completed", "{made}");
    assert_eq!(client.ask("tasks/get", about.clone()).await.unwrap(), made["task"]);
    let result = client.ask("tasks/result", about.clone()).await.unwrap();
    assert_eq!(result["content"], text("at once")["content"]);
    assert_eq!(client.ask("tasks/cancel", about).await.unwrap_err().code(), -32602);
    assert_eq!(client.ask("tasks/list", json!({})).await.unwrap(), json!({ "tasks": [made["task"]] }));
}

#[tokio::test(start_paused = true)]
async fn a_task_can_be_cancelled_and_belongs_to_one_client() {
    let double = worker();
    let gateway = gateway(&[("a", &double)]);
    let (ann, bob) = (client(&gateway, "a").await, client(&gateway, "a").await);
    let about = json!({ "taskId": make(&ann, "slow").await["task"]["taskId"] });
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let asked = double.seen.lock().len();
        assert_eq!(bob.ask(method, about.clone()).await.unwrap_err().code(), -32602, "{method}");
        assert_eq!(double.seen.lock().len(), asked, "{method}: the upstream is not asked");
    }
    assert_eq!(bob.ask("tasks/list", json!({})).await.unwrap(), json!({ "tasks": [] }));
    let cancelled = ann.ask("tasks/cancel", about.clone()).await.unwrap();
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    assert!(ann.ask("tasks/result", about).await.is_err());
    assert_eq!(ann.ask("tasks/list", json!({})).await.unwrap()["tasks"], json!([cancelled]));
}

/// A server whose only tool is a task; `say` gives its answers to everything else, and `None` is never an answer.
fn server(say: impl Fn(&str) -> Option<Value> + Send + Sync + 'static) -> Arc<Double> {
    let behaviour: Behaviour = Arc::new(move |request, _| {
        let answer = match request.method.as_str() {
            "tools/call" => {
                let mut task = task("t1", "working");
                task["resultType"] = "task".into();
                Some(task)
            }
            method => say(method),
        };
        Box::pin(async move {
            match answer {
                Some(answer) => Ok(AnswerBody::Whole(raw(answer), NEW)),
                None => std::future::pending().await,
            }
        })
    });
    let double = Double::with(NEW, &["slow"], behaviour);
    double.tools.lock()[0]["execution"] = json!({ "taskSupport": "optional" });
    double
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_does_not_report_the_status_of_its_task_is_not_waited_for() {
    let asking = || {
        let mut task = task("t1", "input_required");
        task["inputRequests"] =
            json!({ "q": { "method": "elicitation/create", "params": { "message": "?" } } });
        task
    };
    let silent_on_update = server(move |method| (method == "tasks/get").then(asking));
    for double in [server(|_| None), silent_on_update] {
        let gateway = gateway(&[("a", &double)]);
        let client = client(&gateway, "a").await;
        let about = json!({ "taskId": make(&client, "slow").await["task"]["taskId"] });
        let begun = tokio::time::Instant::now();
        let error = client.ask("tasks/result", about).await.unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), 30, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_cancel_shows_that_the_task_has_stopped() {
    let looked = AtomicU64::new(0);
    let double = server(move |method| {
        let is_working = method != "tasks/get" || looked.fetch_add(1, Ordering::SeqCst) < 3;
        Some(task("t1", if is_working { "working" } else { "cancelled" }))
    });
    let gateway = gateway(&[("a", &double)]);
    let client = client(&gateway, "a").await;
    let about = json!({ "taskId": make(&client, "slow").await["task"]["taskId"] });
    assert_eq!(client.ask("tasks/cancel", about).await.unwrap()["status"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_task_names_resources_as_the_view_does() {
    let double = server(|_| {
        let mut task = task("t1", "completed");
        task["result"] = json!({ "content": [{ "type": "resource_link", "uri": "test://r", "name": "r" }] });
        Some(task)
    });
    double.resources.lock().push(json!({ "uri": "test://r", "name": "r" }));
    let gateway = gateway(&[("a", &double)]);
    for (view, tool, uri) in [("a", "slow", "test://r"), ("", "a__slow", "yard+test://a/r")] {
        let client = client(&gateway, view).await;
        let about = json!({ "taskId": make(&client, tool).await["task"]["taskId"] });
        let result = client.ask("tasks/result", about.clone()).await.unwrap();
        assert_eq!(result["content"][0]["uri"], uri);
        let mut newer = Client::new(&gateway, NEW, view);
        newer.declare(json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }));
        let task = newer.ask("tasks/get", about).await.unwrap();
        assert_eq!(task["result"]["content"][0]["uri"], uri, "{task}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_kept_hold_only_so_many_bytes() {
    let megabyte = "x".repeat(1024 * 1024);
    let behaviour: Behaviour = Arc::new(move |_, _| {
        let result = raw(text(&megabyte));
        Box::pin(async move { Ok(AnswerBody::Whole(result, NEW)) })
    });
    let double = Double::with(NEW, &["quick"], behaviour);
    double.tools.lock()[0]["execution"] = json!({ "taskSupport": "optional" });
    let gateway = gateway(&[("a", &double)]);
    let client = client(&gateway, "a").await;
    let mut ids = Vec::new();
    for _ in 0..70 {
        ids.push(make(&client, "quick").await["task"]["taskId"].clone());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for (id, is_kept) in [(&ids[0], false), (&ids[5], false), (&ids[10], true), (&ids[69], true)] {
        let found = client.ask("tasks/get", json!({ "taskId": id })).await;
        let is_completed = found.as_ref().is_ok_and(|task| task["status"] == "completed");
        assert_eq!(is_completed, is_kept, "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_are_declared_to_clients_that_can_ask_for_them_and_to_no_others() {
    let gateway = gateway(&[("a", &worker())]);
    client(&gateway, "").await;
    let declared = async |revision: Revision, view: &str| {
        let answer = Client::new(&gateway, revision, view).ask("server/discover", json!({})).await.unwrap();
        answer["capabilities"]["tasks"].clone()
    };
    let requests = json!({ "tools": { "call": {} } });
    assert_eq!(declared(OLD, "a").await, json!({ "list": {}, "cancel": {}, "requests": requests }));
    assert_eq!(declared(OLD, "").await, json!({ "cancel": {}, "requests": requests }));
    for revision in [Revision::V2025_06_18, NEW] {
        assert_eq!((declared(revision, "a").await, declared(revision, "").await), (Value::Null, Value::Null));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_never_a_task_ignores_a_request_for_one() {
    let double = Double::with(NEW, &["plain", "other"], crate::support::echo());
    double.tools.lock()[1]["execution"] = json!({ "taskSupport": "optional" });
    let gateway = gateway(&[("a", &double)]);
    let client = client(&gateway, "a").await;
    let answer = make(&client, "plain").await;
    assert!(answer["content"].is_array(), "{answer}");
}
