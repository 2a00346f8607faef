//! Lists stay as fresh as their upstreams allow, and state how long and for which clients they are valid.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_model::AnswerBody;
use toolyard_proto::{Method, Notification, Revision};

use crate::support::{Client, Double, gateway, raw};

const NEW: Revision = Revision::NEWEST;
const OLD: Revision = Revision::V2025_11_25;

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

fn stamps(ttl: u64, scope: &str) -> serde_json::Map<String, Value> {
    let stamps =
        json!({ "resultType": "complete", "ttlMs": ttl, "cacheScope": scope, "_meta": { "v/own": 1 } });
    stamps.as_object().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn lists_whose_changes_are_not_announced_are_read_again() {
    for (ttl, wait) in [(0, 100), (10_000, 16)] {
        let double = Double::new(NEW, &["a"]);
        *double.stamps.lock() = stamps(ttl, "public");
        let client = Client::new(&gateway(&[("x", &double)]), NEW, "");
        assert_eq!(client.tools().await, ["x__a"]);
        double.tools.lock().push(tool("b"));
        assert_eq!(client.tools().await, ["x__a"]);
        tokio::time::sleep(Duration::from_secs(wait)).await;
        assert_eq!(client.tools().await, ["x__a", "x__b"], "expires after {ttl} ms");
    }
}

/// A listen is acknowledged with what the upstream agrees to announce, which may be less than what was asked for.
#[tokio::test(start_paused = true)]
async fn lists_that_the_upstream_has_not_agreed_to_announce_are_read_again() {
    for (agreed, names) in
        [(json!({ "toolsListChanged": true }), &["x__a"][..]), (json!({}), &["x__a", "x__b"][..])]
    {
        let acknowledged = agreed.clone();
        let double = Double::with(
            NEW,
            &["a"],
            Arc::new(move |request, peer| {
                if request.method == Method::LISTEN {
                    let params = raw(json!({ "notifications": acknowledged }));
                    peer.notify(Notification::new(Method::ACKNOWLEDGED, params));
                    return Box::pin(std::future::pending());
                }
                Box::pin(async { Ok(AnswerBody::Whole(raw(json!({ "content": [] })), Revision::NEWEST)) })
            }),
        );
        double.acknowledges.store(true, Ordering::SeqCst);
        let client = Client::new(&gateway(&[("x", &double)]), NEW, "");
        client.tools().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        double.tools.lock().push(tool("b"));
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(client.tools().await, names, "it announces {agreed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_new_at_its_upstream_can_be_called_at_once() {
    let double = Double::new(NEW, &["a"]);
    let client = Client::new(&gateway(&[("x", &double)]), NEW, "");
    client.tools().await;
    double.tools.lock().push(tool("b"));
    client.call("x__b", json!({})).await.unwrap();
    assert_eq!(client.call("x__c", json!({})).await.unwrap_err().code(), -32602);
}

#[tokio::test(start_paused = true)]
async fn an_announced_change_that_no_list_shows_reaches_clients() {
    let double = Double::new(OLD, &["a"]);
    let gateway = gateway(&[("x", &double)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let listening = tokio::spawn(client.send("subscriptions/listen", filter));
    tokio::time::sleep(Duration::from_secs(2)).await;
    double.announce(Method::TOOLS_CHANGED);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let methods = client.inbox.methods();
    assert_eq!(methods.last().unwrap(), "notifications/tools/list_changed", "{methods:?}");
    listening.abort();
}

#[tokio::test(start_paused = true)]
async fn a_private_list_stays_private_and_the_shortest_time_counts() {
    let (open, closed) = (Double::new(NEW, &["a"]), Double::new(NEW, &["b"]));
    *open.stamps.lock() = stamps(30_000, "public");
    *closed.stamps.lock() = stamps(1_000, "private");
    let gateway = gateway(&[("open", &open), ("closed", &closed)]);
    Client::new(&gateway, NEW, "").tools().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (view, ttl, scope, meta) in [
        ("", 1_000, "private", Value::Null),
        ("open", 30_000, "public", json!(1)),
        ("closed", 1_000, "private", json!(1)),
    ] {
        let list = Client::new(&gateway, NEW, view).ask("tools/list", json!({})).await.unwrap();
        let stamps = (&list["ttlMs"], &list["cacheScope"], &list["_meta"]["v/own"]);
        assert_eq!(stamps, (&json!(ttl), &json!(scope), &meta), "{view}: {list}");
        assert!(list["_meta"]["io.modelcontextprotocol/serverInfo"].is_object(), "{list}");
    }
}

/// What one client may see, a cache must not show to another.
#[tokio::test(start_paused = true)]
async fn what_a_client_with_a_token_sees_is_private() {
    let double = Double::new(NEW, &["a"]);
    *double.stamps.lock() = stamps(30_000, "public");
    let gateway = gateway(&[("x", &double)]);
    Client::new(&gateway, NEW, "").tools().await;
    for view in ["", "x"] {
        for (client, scope) in [
            (Client::new(&gateway, NEW, view), "public"),
            (Client::named(&gateway, NEW, view, "ann"), "private"),
        ] {
            let list = client.ask("tools/list", json!({})).await.unwrap();
            assert_eq!(list["cacheScope"], scope, "{view}: {list}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_not_listed_can_be_called_where_its_upstream_is_alone() {
    let double = Double::new(NEW, &["a"]);
    let gateway = gateway(&[("x", &double)]);
    let alone = Client::new(&gateway, NEW, "x");
    alone.tools().await;
    alone.call("hidden", json!({})).await.unwrap();
    let (_, params) = double.seen.lock().pop().unwrap();
    assert_eq!(params.member("name").unwrap().as_string().unwrap(), "hidden");
    assert_eq!(Client::new(&gateway, NEW, "").call("x__hidden", json!({})).await.unwrap_err().code(), -32602);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_clients_must_leave_out_is_in_no_view() {
    let double = Double::new(NEW, &["a"]);
    let schema =
        json!({ "type": "object", "properties": { "x": { "type": "number", "x-mcp-header": "X" } } });
    double.tools.lock().push(json!({ "name": "b", "inputSchema": schema }));
    let gateway = gateway(&[("x", &double)]);
    for (view, shown, name) in [("", "x__a", "x__b"), ("x", "a", "b")] {
        let client = Client::new(&gateway, NEW, view);
        assert_eq!(client.tools().await, [shown]);
        let refused = client.call(name, json!({})).await.unwrap_err();
        assert!(refused.message().contains("x-mcp-header"), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_of_many_announces_only_the_extensions_that_it_serves() {
    let double = Double::new(NEW, &["a"]);
    let extensions = json!({ "io.modelcontextprotocol/ui": {}, "com.example/own": {} });
    *double.extensions.lock() = extensions.as_object().unwrap().clone();
    let gateway = gateway(&[("x", &double)]);
    Client::new(&gateway, NEW, "").tools().await;
    let many = Client::new(&gateway, NEW, "").ask("server/discover", json!({})).await.unwrap();
    assert_eq!(many["capabilities"]["extensions"], json!({ "io.modelcontextprotocol/ui": {} }));
    let alone = Client::new(&gateway, NEW, "x").ask("server/discover", json!({})).await.unwrap();
    assert_eq!(alone["capabilities"]["extensions"], extensions);
}

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// An upstream that reports the status of one task to each client that listens to it.
fn reporting() -> Arc<Double> {
    let double = Double::with(
        NEW,
        &["a"],
        Arc::new(|request, peer| {
            if request.method == Method::LISTEN {
                let listened = request.params.member("notifications").unwrap();
                let ack = raw(json!({})).with("notifications", &listened);
                peer.notify(Notification::new(Method::ACKNOWLEDGED, ack));
                let status = raw(json!({ "taskId": "t1", "status": "working" }));
                peer.notify(Notification::new(Method::TASKS_CHANGED, status));
                return Box::pin(std::future::pending());
            }
            Box::pin(async { Ok(AnswerBody::Whole(raw(json!({ "content": [] })), Revision::NEWEST)) })
        }),
    );
    double.extensions.lock().insert(TASKS.to_owned(), json!({}));
    double
}

#[tokio::test(start_paused = true)]
async fn a_client_that_knows_tasks_receives_the_status_of_those_it_listens_to_under_the_ids_it_knows() {
    let double = reporting();
    let gateway = gateway(&[("x", &double)]);
    Client::new(&gateway, NEW, "").tools().await;
    for (view, id) in [("", "x.t1"), ("x", "t1")] {
        let filter = json!({ "notifications": { "taskIds": [id] } });
        let plain = Client::new(&gateway, NEW, view);
        assert_eq!(plain.ask("subscriptions/listen", filter.clone()).await.unwrap_err().code(), -32021);
        let mut knowing = Client::new(&gateway, NEW, view);
        knowing.declare(json!({ "extensions": { TASKS: {} } }));
        let listening = tokio::spawn(knowing.send("subscriptions/listen", filter));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            knowing.inbox.methods(),
            ["notifications/subscriptions/acknowledged", "notifications/tasks"],
            "in this order"
        );
        let params = |at: usize| knowing.inbox.received.lock()[at].params.clone().unwrap();
        let acknowledged = params(0).at(&["notifications", "taskIds"]).unwrap();
        assert_eq!(acknowledged.as_str(), format!(r#"["{id}"]"#));
        assert_eq!(params(1).member("taskId").unwrap().as_string().unwrap(), id);
        listening.abort();
        let unknown = json!({ "notifications": { "taskIds": ["y.z"] } });
        if view.is_empty() {
            assert_eq!(knowing.ask("subscriptions/listen", unknown).await.unwrap_err().code(), -32602);
        }
    }
}
