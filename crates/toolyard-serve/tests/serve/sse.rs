//! The oldest HTTP transport from both sides: a raw client at `/sse`, and our own links to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolyard_link::http::HttpSpec;
use toolyard_link::{EraPin, Offer, SocketSpec, Target, Timeouts, UpstreamTarget, connect};
use toolyard_model::local::LocalListener;
use toolyard_model::{AnswerBody, Connected, LinkRequest, Peer, Principal, Request, Scope, View};
use toolyard_proto::{Id, Method, Raw, Revision};
use toolyard_serve::admit::Gate;
use toolyard_serve::{Options, serve_local, serve_tcp};

use crate::support::{Headers, Live, Reply, World, initialize, modern, until, world, world_with};

const JSON: Headers<'_> = &[("content-type", "application/json")];

/// Opens the event stream: it, and the address to post to.
async fn open(world: &World, path: &str, headers: Headers<'_>) -> (Live, String) {
    let mut live = world.open("GET", path, headers, "").await;
    assert_eq!(live.status, 200);
    let event = live.event().await.unwrap();
    assert_eq!(event.name, "endpoint");
    (live, String::from_utf8(event.data.to_vec()).unwrap())
}

async fn post(world: &World, address: &str, message: &Value) -> Reply {
    world.send("POST", address, JSON, &message.to_string()).await
}

fn call(id: u64, name: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": {} } })
}

#[tokio::test]
async fn an_http_sse_client_is_served() {
    let world = world().await;
    let (mut events, address) = open(&world, "/sse", &[]).await;
    assert!(address.starts_with("/sse?sessionId="), "{address}");
    let accepted = post(&world, &address, &initialize("2024-11-05")).await;
    assert_eq!((accepted.status, accepted.body.as_str()), (202, "Accepted"));
    let greeting = events.message().await.unwrap();
    assert_eq!(greeting["result"]["protocolVersion"], "2024-11-05", "{greeting}");
    // A question in the middle of a call, and its answer.
    post(&world, &address, &call(5, "ask")).await;
    let question = events.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } });
    assert_eq!(post(&world, &address, &answer).await.status, 202);
    assert_eq!(events.message().await.unwrap()["id"], 5);
}

#[tokio::test]
async fn the_view_is_in_the_path_and_a_session_belongs_to_the_client_that_opened_it() {
    let gate = Gate::open()
        .with_token(Principal::token("ann"), "sesame")
        .with_token(Principal::token("bob"), "simsim");
    let world = world_with(Options { gate, ..Options::default() }).await;
    assert_eq!(world.send("GET", "/sse", &[], "").await.status, 401);
    let ann: Headers<'_> = &[("authorization", "Bearer sesame"), ("content-type", "application/json")];
    let bob: Headers<'_> = &[("authorization", "Bearer simsim"), ("content-type", "application/json")];
    assert_eq!(world.send("GET", "/sse/missing", ann, "").await.status, 404);
    let (mut events, address) = open(&world, "/sse/p/work", ann).await;
    let hello = initialize("2024-11-05").to_string();
    assert_eq!(world.send("POST", &address, bob, &hello).await.status, 404);
    let elsewhere = address.replace("/sse/p/work", "/sse");
    assert_eq!(world.send("POST", &elsewhere, ann, &hello).await.status, 404);
    assert_eq!(world.send("POST", &address, ann, &hello).await.status, 202);
    assert!(events.message().await.unwrap()["result"].is_object());
    let origins = world.double.origins.lock();
    assert_eq!(origins.last().unwrap().view, View::Profile("work".into()));
}

#[tokio::test]
async fn a_posted_body_that_is_not_a_message_is_refused() {
    let world = world().await;
    let (_events, address) = open(&world, "/sse", &[]).await;
    for (body, status) in [("garbage", 400), ("{\"a\":\n1}", 400), ("{}", 400)] {
        assert_eq!(world.send("POST", &address, JSON, body).await.status, status, "{body}");
    }
    let text: Headers<'_> = &[("content-type", "text/plain")];
    assert_eq!(world.send("POST", &address, text, "{}").await.status, 415);
    assert_eq!(post(&world, "/sse?sessionId=guess", &call(1, "x")).await.status, 404);
    let knock = post(&world, "/sse", &initialize("2025-11-25")).await;
    assert_eq!((knock.status, knock.header("allow")), (405, "GET"));
    let foreign: Headers<'_> = &[("origin", "https://evil.example")];
    assert_eq!(world.send("GET", "/sse", foreign, "").await.status, 403);
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_calls_and_its_session() {
    let world = world().await;
    let (mut events, address) = open(&world, "/sse", &[]).await;
    post(&world, &address, &initialize("2024-11-05")).await;
    events.message().await.unwrap();
    post(&world, &address, &call(1, "hang")).await;
    let is_call = |request: &Request| request.method == Method::TOOLS_CALL;
    until("the call", || world.double.requests.lock().iter().any(is_call)).await;
    drop(events);
    until("the end of the call", || world.double.dropped.load(Ordering::SeqCst) >= 1).await;
    until("the end of the client", || world.double.ended.lock().len() == 1).await;
    assert_eq!(post(&world, &address, &call(2, "x")).await.status, 404);
}

#[tokio::test]
async fn when_the_endpoint_ends_so_does_the_stream() {
    let world = world().await;
    let (mut events, _) = open(&world, "/sse", &[]).await;
    world.endpoint.end(std::time::Duration::from_secs(5)).await;
    assert!(events.event().await.is_none());
}

async fn link(target: Target, scope: &Scope) -> Connected {
    let timeouts = Timeouts::default();
    let upstream = UpstreamTarget { name: "old".into(), target, era: EraPin::Auto, timeouts };
    let offer =
        Offer { capabilities: json!({}).into(), client_info: json!({ "name": "t", "version": "1" }).into() };
    connect(&upstream, None, &offer, scope).await.unwrap()
}

async fn check_link(connected: Connected, revision: Revision) {
    let link = connected.link;
    assert_eq!(link.greeting().revision, revision);
    let origin = toolyard_model::Origin::gateway(json!({}).into(), json!({}).into());
    let params: Raw =
        modern("", json!({ "name": "echo", "arguments": { "x": "one\ntwo" } }))["params"].clone().into();
    let (id, method) = (Id::number(1), Method::TOOLS_CALL);
    let request = LinkRequest::new(origin, id, method, params);
    let answer = link.call(request, Peer::none()).await.unwrap();
    assert!(matches!(answer, AnswerBody::Whole(..)));
    link.close().await;
}

#[tokio::test]
async fn our_own_links_use_http_sse_on_request_and_if_nothing_else_is_offered() {
    let (world, scope) = (world().await, Scope::new());
    let spec =
        HttpSpec::new(format!("http://{}/sse", world.address).parse().unwrap(), http::HeaderMap::new());
    check_link(link(Target::Sse(spec.clone()), &scope).await, Revision::NEWEST_LEGACY).await;
    check_link(link(Target::Http(spec), &scope).await, Revision::NEWEST_LEGACY).await;
    until("the end of the client", || world.double.ended.lock().len() == 2).await;
}

#[tokio::test]
async fn our_own_links_reach_sockets() {
    let (world, scope, folder) = (world().await, Scope::new(), tempfile::tempdir().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let path = folder.path().join("mcp.sock");
    let endpoint = &world.endpoint;
    scope.spawn(serve_tcp(listener, endpoint.clone(), scope.clone()));
    scope.spawn(serve_local(LocalListener::bind(&path).unwrap(), endpoint.clone(), scope.clone()));
    for spec in [SocketSpec::Tcp(address), SocketSpec::Local(path)] {
        check_link(link(Target::Socket(spec), &scope).await, Revision::NEWEST).await;
    }
    let missing = Target::Socket(SocketSpec::Local(folder.path().join("missing.sock")));
    let (name, era, timeouts) = (Arc::from("gone"), EraPin::Auto, Timeouts::default());
    let upstream = UpstreamTarget { name, target: missing, era, timeouts };
    let offer = Offer { capabilities: json!({}).into(), client_info: json!({}).into() };
    let error = connect(&upstream, None, &offer, &scope).await.unwrap_err().to_string();
    assert!(error.contains("missing.sock") && error.contains("check that it is running"), "{error}");
}
