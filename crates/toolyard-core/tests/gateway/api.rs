//! The control API: what it shows, what it changes, and for which clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use toolyard_core::{Controls, Gateway, Reloaded};
use toolyard_model::{Control, ControlEvent, ControlRequest, ControlResponse, Principal};
use toolyard_proto::Revision;

use crate::support::{Behaviour, Client, Double, gateway, plan};

const NEW: Revision = Revision::NEWEST;

fn request(method: Method, path: &str, is_operator: bool) -> ControlRequest {
    ControlRequest {
        method,
        path: path.into(),
        query: None,
        body: Bytes::new(),
        last_event_id: None,
        principal: Principal::local(),
        is_operator,
    }
}

async fn ask(gateway: &Gateway, method: Method, path: &str, is_operator: bool) -> (StatusCode, Value) {
    match gateway.control(request(method, path, is_operator)).await {
        ControlResponse::Whole { status, json } => (status, serde_json::from_slice(&json).unwrap()),
        ControlResponse::Text { text, .. } => (StatusCode::OK, text.into()),
        ControlResponse::Events(_) | ControlResponse::Parts { .. } => panic!("no stream was asked for"),
    }
}

pub(crate) async fn get(gateway: &Gateway, path: &str) -> Value {
    ask(gateway, Method::GET, path, false).await.1
}

async fn post(gateway: &Gateway, path: &str) -> Value {
    ask(gateway, Method::POST, path, true).await.1
}

#[tokio::test(start_paused = true)]
async fn states_and_names_are_readable_and_changes_need_an_operator() {
    let gateway = gateway(&[("files", &Double::new(NEW, &["read"]))]);
    Client::new(&gateway, NEW, "").tools().await;
    let status = get(&gateway, "/status").await;
    assert_eq!(status["upstreams"], json!({ "active": 2, "total": 2, "disabled": 0 }));
    let all = get(&gateway, "/upstreams").await;
    assert_eq!(
        (&all["upstreams"][1]["id"], &all["upstreams"][1]["state"]),
        (&json!("files"), &json!("active"))
    );
    let one = get(&gateway, "/upstreams/files").await;
    assert_eq!((&one["tools"], &one["history"][0]["to"]), (&json!(1), &json!("active")));
    for path in [
        "/upstreams/files/restart",
        "/upstreams/files/disable",
        "/upstreams/files/enable",
        "/reload",
        "/stop",
    ] {
        let (status, error) = ask(&gateway, Method::POST, path, false).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (StatusCode::FORBIDDEN, &json!("operator_required")),
            "{path}"
        );
        assert_eq!(ask(&gateway, Method::GET, path, true).await.0, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    for (method, path, expected) in [
        (Method::GET, "/nothing", StatusCode::NOT_FOUND),
        (Method::GET, "/upstreams/nothing", StatusCode::NOT_FOUND),
        (Method::POST, "/upstreams/nothing/restart", StatusCode::NOT_FOUND),
        (Method::POST, "/upstreams/yard/disable", StatusCode::CONFLICT),
        (Method::POST, "/stop", StatusCode::CONFLICT),
    ] {
        assert_eq!(ask(&gateway, method, path, true).await.0, expected, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_can_be_switched_off_and_on_and_stays_off_through_a_reload() {
    let double = Double::new(NEW, &["read"]);
    let gateway = gateway(&[("files", &double)]);
    let client = Client::new(&gateway, NEW, "");
    assert_eq!(client.tools().await, ["files__read"]);
    assert_eq!(post(&gateway, "/upstreams/FILES/disable").await["state"], "disabled");
    assert_eq!(client.tools().await, Vec::<String>::new());
    assert_eq!(get(&gateway, "/upstreams/files").await["reason"], "switched off by an operator");
    assert_eq!(gateway.reload(plan(&[("files", &double)])), Reloaded::default());
    assert_eq!(client.tools().await, Vec::<String>::new());
    assert_eq!(post(&gateway, "/upstreams/files/enable").await["state"], "enabled");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.tools().await, ["files__read"]);
    assert_eq!(double.connects.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_restart_makes_a_new_connection_and_loses_no_call() {
    let double = Double::new(NEW, &["read"]);
    let gateway = gateway(&[("files", &double)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    assert_eq!(post(&gateway, "/upstreams/files/restart").await["state"], "restarting");
    client.call("files__read", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.call("files__read", json!({})).await.unwrap();
    assert_eq!(double.connects.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn reload_and_stop_are_passed_to_the_program() {
    let gateway = gateway(&[]);
    let (reloads, stops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = |counter: &Arc<AtomicUsize>| {
        let counter = counter.clone();
        Box::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        }) as Box<dyn Fn() + Send + Sync>
    };
    gateway.set_controls(Controls { reload: count(&reloads), stop: count(&stops) });
    assert_eq!(ask(&gateway, Method::POST, "/reload", true).await.0, StatusCode::ACCEPTED);
    post(&gateway, "/stop").await;
    assert_eq!((reloads.load(Ordering::SeqCst), stops.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn events_are_followed_and_resumed_by_id() {
    let double = Double::new(NEW, &["read"]);
    let gateway = gateway(&[("files", &double)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let follow = async |after: Option<&str>, is_operator: bool| {
        let last_event_id = after.map(str::to_owned);
        let principal = Principal::local();
        let request =
            ControlRequest { last_event_id, principal, ..request(Method::GET, "/events", is_operator) };
        match gateway.control(request).await {
            ControlResponse::Events(events) => events,
            other => panic!("a stream was asked for: {other:?}"),
        }
    };
    let mut events = follow(None, true).await;
    client.call("files__read", json!({})).await.unwrap();
    let _ = client.call("nope", json!({})).await;
    let mut next = async || {
        let ControlEvent { id, name, data } = events.next().await.unwrap();
        (id.unwrap(), name, serde_json::from_str::<Value>(&data).unwrap())
    };
    let (id, name, opened) = next().await;
    assert_eq!((name, &opened["tool"], &opened["attempt"]), ("call.opened", &json!("files:read"), &json!(1)));
    let (_, name, ended) = next().await;
    assert_eq!((name, &ended["status"], &ended["call"]), ("call.ended", &json!("ok"), &opened["call"]));
    assert_eq!(next().await.1, "call.refused");
    let mut resumed = follow(Some(&id), true).await;
    assert_eq!(resumed.next().await.unwrap().name, "call.ended");
    double.hang_up("gone");
    let mut own = follow(None, false).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(own.next().await.unwrap().name, "upstream.changed");
}

#[tokio::test(start_paused = true)]
async fn an_operator_sees_a_call_under_way_with_its_payload_and_cancels_it() {
    let silent: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let gateway = gateway(&[("files", &Double::with(NEW, &["read"], silent))]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    ask(&gateway, Method::GET, "/calls", true).await;
    let calling = client.call("files__read", json!({ "path": "/srv", "api_key": "s3cret" }));
    let watching = async {
        let open = until_open(&gateway).await;
        let id = open["call"].as_u64().unwrap();
        assert_eq!((&open["tool"], &open["state"]), (&json!("files:read"), &json!("open")));
        let (status, _) = ask(&gateway, Method::GET, &format!("/calls/{id}"), false).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "payloads need an operator");
        let one = ask(&gateway, Method::GET, &format!("/calls/{id}"), true).await.1;
        let text = one["request"]["text"].as_str().unwrap();
        assert!(text.contains("/srv") && !text.contains("s3cret"), "{text}");
        let (status, _) = ask(&gateway, Method::POST, &format!("/calls/{id}/cancel"), false).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert_eq!(post(&gateway, &format!("/calls/{id}/cancel")).await["state"], json!("cancelled"));
        id
    };
    let (answer, id) = tokio::join!(calling, watching);
    assert!(answer.unwrap_err().to_string().contains("an operator has cancelled the call"));
    let ended = ask(&gateway, Method::GET, &format!("/calls/{id}"), true).await.1;
    assert_eq!((&ended["state"], &ended["status"]), (&json!("ended"), &json!("cancelled")));
}

async fn until_open(gateway: &Gateway) -> Value {
    loop {
        let calls = ask(gateway, Method::GET, "/calls", true).await.1;
        if let Some(open) = calls["calls"].as_array().unwrap().iter().find(|call| call["state"] == "open") {
            return open.clone();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_calls_by_upstream_and_ignore_invented_names() {
    let gateway = gateway(&[("files", &Double::new(NEW, &["read"]))]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    for number in 0..100 {
        let _ = client.call(&format!("invented_{number}"), json!({})).await;
    }
    client.call("files__read", json!({})).await.unwrap();
    let metrics = get(&gateway, "/metrics").await;
    let metrics = metrics.as_str().unwrap();
    assert!(!metrics.contains("invented"), "{metrics}");
    let count = |line: &str| metrics.lines().filter(|one| one.starts_with(line)).count();
    assert_eq!(count("mcp_server_operation_duration_seconds_count{"), 2, "{metrics}");
    let line = "mcp_server_operation_duration_seconds_count{mcp_method_name=\"tools/call\",\
        gen_ai_operation_name=\"execute_tool\",upstream=\"files\"} 1";
    assert_eq!(count(line), 1, "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn the_live_stream_sends_the_state_and_then_what_changed() {
    let gateway = gateway(&[("files", &Double::new(NEW, &["read"]))]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let ControlResponse::Events(mut live) = gateway.control(request(Method::GET, "/live", true)).await else {
        panic!("a stream was asked for");
    };
    let mut next = async || {
        let event: ControlEvent = live.next().await.unwrap();
        (event.name, serde_json::from_str::<Value>(&event.data).unwrap())
    };
    let (name, first) = next().await;
    assert_eq!((name, first["upstreams"].as_array().unwrap().len()), ("state", 2));
    client.call("files__read", json!({})).await.unwrap();
    let (name, tick) = next().await;
    assert_eq!((name, &tick["ended"][0]["tool"]), ("tick", &json!("files:read")));
    let changed: Vec<_> = tick["upstreams"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(changed, [&json!("files")]);
    for _ in 0..70 {
        let (_, tick) = next().await;
        assert_eq!(tick["ended"], json!([]), "each call is sent once");
    }
    assert_eq!(next().await.1["upstreams"], json!([]), "the call is no longer one of the last minute");
}

#[tokio::test(start_paused = true)]
async fn the_description_of_the_api_has_every_path_and_marks_those_that_need_an_operator() {
    let gateway = gateway(&[("files", &Double::new(NEW, &["read"]))]);
    let api = get(&gateway, "/openapi.json").await;
    let paths = api["paths"].as_object().unwrap();
    assert!(paths.len() >= 20, "{:?}", paths.keys());
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            let concrete = path.replace("{id}", "files").replace("{call}", "1");
            let needs_operator = operation.get("security").is_some();
            let asked: Method = method.to_uppercase().parse().unwrap();
            if needs_operator {
                let (status, _) = ask(&gateway, asked, &concrete, false).await;
                assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}");
            }
        }
    }
}
