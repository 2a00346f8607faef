//! The control API: what it shows, what it changes, and for which clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolyard_core::{Controls, Gateway, Reloaded, RetryPlan, ToolRule, ToolSettings};
use toolyard_model::{AnswerBody, Control, ControlEvent, ControlRequest, ControlResponse, Principal};
use toolyard_proto::{CallError, Fault, Revision};

use crate::support::{Behaviour, Client, Double, echo, gateway, plan, start};

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
    let history = get(&gateway, "/upstreams/files").await["history"].clone();
    let times = history.as_array().unwrap().iter().filter(|step| step["to"] == "active").count();
    assert_eq!(times, 2, "the history goes on: {history}");
}

#[tokio::test(start_paused = true)]
async fn an_operator_begins_a_sign_in_and_the_upstream_connects_when_the_user_is_done() {
    let (double, other) = (Double::new(NEW, &["read"]), Double::new(NEW, &["write"]));
    double.needs_sign_in.store(true, Ordering::SeqCst);
    let gateway = gateway(&[("files", &double), ("other", &other)]);
    let client = Client::new(&gateway, NEW, "");
    assert_eq!(client.tools().await, ["other__write"]);
    assert_eq!(get(&gateway, "/upstreams/files").await["state"], "sign-in needed");
    let path = "/upstreams/FILES/sign-in";
    let (status, begun) = ask(&gateway, Method::POST, path, true).await;
    let url = "http://127.0.0.1:7777/oauth/start/one";
    let expected = json!({ "id": "files", "state": "signing in", "url": url });
    assert_eq!((status, begun), (StatusCode::OK, expected));
    assert_eq!(get(&gateway, "/upstreams/files").await["state"], "sign-in needed");
    double.signed_in.notify_one();
    tokio::time::timeout(Duration::from_secs(1), async {
        while get(&gateway, "/upstreams/files").await["state"] != "active" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("connected again at once");
    // The catalog follows the state after a moment.
    tokio::time::timeout(Duration::from_secs(2), async {
        while client.tools().await != ["files__read", "other__write"] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("its tools are listed again");
    for (path, status, code) in [
        ("/upstreams/other/sign-in", StatusCode::CONFLICT, "no_sign_in"),
        ("/upstreams/nothing/sign-in", StatusCode::NOT_FOUND, "unknown_upstream"),
    ] {
        let (actual, error) = ask(&gateway, Method::POST, path, true).await;
        assert_eq!((actual, &error["error"]["code"]), (status, &json!(code)), "{path}");
    }
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
async fn the_live_stream_counts_the_calls_that_one_tick_does_not_list() {
    let gateway = gateway(&[("files", &Double::new(NEW, &["read"]))]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let call = async |times: usize| {
        for _ in 0..times {
            client.call("files__read", json!({})).await.unwrap();
        }
    };
    call(150).await;
    let ControlResponse::Events(mut live) = gateway.control(request(Method::GET, "/live", true)).await else {
        panic!("a stream was asked for");
    };
    let mut next = async || {
        let tick: Value = serde_json::from_str(&live.next().await.unwrap().data).unwrap();
        (tick["ended"].as_array().unwrap().len(), tick["missed"].as_u64().unwrap())
    };
    assert_eq!(next().await.1, 0, "what ended before the stream began was not missed");
    // More than one tick lists, and more than the gateway remembers.
    for (calls, missed) in [(100, 0), (130, 30), (400, 300), (0, 0)] {
        call(calls).await;
        assert_eq!(next().await, (calls.min(100), missed), "{calls} calls");
    }
}

/// What every client may read. All other paths of the API need an operator.
const FOR_EVERY_CLIENT: [&str; 13] = [
    "GET /catalog",
    "GET /calls",
    "GET /events",
    "GET /live",
    "GET /metrics",
    "GET /openapi.json",
    "GET /report",
    "GET /sessions",
    "GET /status",
    "GET /upstreams",
    "GET /upstreams/{id}",
    "GET /upstreams/{id}/definitions",
    "GET /upstreams/{id}/samples",
];

#[tokio::test(start_paused = true)]
async fn payloads_stderr_logs_and_all_changes_need_an_operator() {
    let gateway = gateway(&[("files", &Double::new(NEW, &["read"]))]);
    Client::new(&gateway, NEW, "").tools().await;
    for (method, path) in [
        (Method::GET, "/calls/1"),
        (Method::GET, "/upstreams/files/stderr"),
        (Method::GET, "/upstreams/files/changes"),
        (Method::GET, "/logs"),
        (Method::GET, "/definitions"),
        (Method::GET, "/approvals"),
        (Method::POST, "/approvals/approve"),
        (Method::POST, "/approvals/deny"),
        (Method::POST, "/calls/1/cancel"),
        (Method::POST, "/upstreams/files/restart"),
        (Method::POST, "/upstreams/files/enable"),
        (Method::POST, "/upstreams/files/disable"),
        (Method::POST, "/upstreams/files/sign-in"),
        (Method::POST, "/tools/disable"),
        (Method::POST, "/tools/enable"),
        (Method::POST, "/hooks/session_start"),
        (Method::POST, "/reload"),
        (Method::POST, "/stop"),
    ] {
        let (status, error) = ask(&gateway, method.clone(), path, false).await;
        let code = &error["error"]["code"];
        assert_eq!((status, code), (StatusCode::FORBIDDEN, &json!("operator_required")), "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_path_that_is_not_listed_here_as_open_to_clients_needs_an_operator() {
    let gateway = gateway(&[("files", &Double::new(NEW, &["read"]))]);
    let api = get(&gateway, "/openapi.json").await;
    let mut open = Vec::new();
    for (path, operations) in api["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if operation.get("security").is_none() {
                open.push(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    open.sort();
    let mut expected: Vec<&str> = FOR_EVERY_CLIENT.to_vec();
    expected.sort_unstable();
    assert_eq!(open, expected);
}

#[tokio::test(start_paused = true)]
async fn a_client_reads_its_own_calls_and_an_operator_those_of_all() {
    let gateway = gateway(&[("files", &Double::new(NEW, &["read", "write"]))]);
    let (ann, bob) = (Client::named(&gateway, NEW, "", "ann"), Client::named(&gateway, NEW, "", "bob"));
    ann.tools().await;
    ann.call("files__read", json!({})).await.unwrap();
    bob.call("files__write", json!({})).await.unwrap();
    let seen = async |name: &str, is_operator: bool| {
        let principal = Principal::token(name);
        let request = ControlRequest { principal, ..request(Method::GET, "/calls", is_operator) };
        let ControlResponse::Whole { json, .. } = gateway.control(request).await else { panic!("no answer") };
        let json: Value = serde_json::from_slice(&json).unwrap();
        let tool = |call: &Value| call["tool"].as_str().unwrap().to_owned();
        json["calls"].as_array().unwrap().iter().map(tool).collect::<Vec<_>>()
    };
    assert_eq!(seen("ann", false).await, ["files:read"]);
    assert_eq!(seen("bob", false).await, ["files:write"]);
    assert_eq!(seen("eve", false).await, Vec::<String>::new());
    assert_eq!(seen("eve", true).await, ["files:write", "files:read"]);
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

/// Round, attempt and attempts in the events of calls that have ended.
struct Counts(BoxStream<'static, ControlEvent>);

impl Counts {
    async fn follow(gateway: &Gateway) -> Self {
        match gateway.control(request(Method::GET, "/events", true)).await {
            ControlResponse::Events(events) => Self(events.boxed()),
            other => panic!("a stream was asked for: {other:?}"),
        }
    }

    async fn next(&mut self) -> [u64; 3] {
        loop {
            let event = self.0.next().await.unwrap();
            if event.name == "call.ended" {
                let data: Value = serde_json::from_str(&event.data).unwrap();
                return ["round", "attempt", "attempts"].map(|key| data[key].as_u64().unwrap());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_sent_again_is_reported_with_its_attempts() {
    for error in [
        CallError::unavailable("it is not there"),
        CallError::header_mismatch("a header is required").with_origin(Fault::Upstream),
    ] {
        let (echo, failure) = (echo(), Mutex::new(Some(error)));
        let behaviour: Behaviour = Arc::new(move |request, peer| {
            let is_call = request.method == toolyard_proto::Method::TOOLS_CALL;
            match failure.lock().take_if(|_| is_call) {
                Some(error) => Box::pin(async { Err(error) }),
                None => echo(request, peer),
            }
        });
        let gateway = start(&[("files", &Double::with(NEW, &["read"], behaviour))], |plan| {
            let settings = ToolSettings { retry: Some(RetryPlan::default()), ..ToolSettings::default() };
            plan.calls.tools = vec![ToolRule { pattern: "files:*".into(), settings, ..ToolRule::default() }];
        });
        let client = Client::new(&gateway, NEW, "");
        client.tools().await;
        let mut counts = Counts::follow(&gateway).await;
        let answer = client.call("files__read", json!({})).await.unwrap();
        assert!(answer["isError"].is_null(), "{answer}");
        assert_eq!(counts.next().await, [1, 2, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn each_answer_to_a_question_begins_a_round() {
    let asking: Behaviour = Arc::new(|request, _| {
        let state = request.params.member("requestState").and_then(|state| state.as_string());
        let result = match state.as_deref() {
            Some("second") => json!({ "resultType": "complete", "content": [] }),
            state => json!({
                "resultType": "input_required", "requestState": if state.is_some() { "second" } else { "first" },
                "inputRequests": { "q": { "method": "elicitation/create", "params": {} } },
            }),
        };
        Box::pin(async move { Ok(AnswerBody::Whole(result.into(), NEW)) })
    });
    let gateway = gateway(&[("files", &Double::with(NEW, &["read"], asking))]);
    let elicits = json!({ "elicitation": {} });
    let mut modern = Client::new(&gateway, NEW, "");
    modern.declare(elicits.clone());
    modern.tools().await;
    let mut counts = Counts::follow(&gateway).await;
    let mut call = json!({ "name": "files__read", "arguments": {} });
    for round in 1..=3 {
        let answer = modern.ask("tools/call", call.clone()).await.unwrap();
        assert_eq!(counts.next().await, [round, 1, 1], "the client repeats the call");
        call["requestState"] = answer["requestState"].clone();
        call["inputResponses"] = json!({ "q": { "action": "accept", "content": {} } });
    }
    let mut legacy = Client::new(&gateway, Revision::V2025_11_25, "");
    legacy.declare(elicits);
    *legacy.inbox.reply.lock() = Some(json!({ "action": "accept", "content": {} }));
    legacy.call("files__read", json!({})).await.unwrap();
    assert_eq!(counts.next().await, [3, 1, 1], "the client is asked twice during the call");
    assert_eq!(get(&gateway, "/calls").await["calls"][0]["round"], json!(3));
}
