//! The control API: behind the same admission as MCP, over TCP and the local socket, and which client is an operator.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use toolyard_model::local::LocalListener;
use toolyard_model::{BoxFuture, Control, ControlEvent, ControlRequest, ControlResponse, Principal, Scope};
use toolyard_serve::admit::Gate;
use toolyard_serve::{Endpoint, Options, serve_http, serve_local};

use crate::support::{Double, Headers, World};

/// Answers with what it was asked, or with events.
struct Echo;

impl Control for Echo {
    fn control(&self, request: ControlRequest) -> BoxFuture<ControlResponse> {
        Box::pin(async move {
            if request.path == "/events" {
                let first = request.last_event_id.and_then(|id| id.parse().ok()).unwrap_or(0) + 1;
                let event = |id: u32| ControlEvent {
                    id: Some(id.to_string()),
                    name: "test",
                    data: format!("{{\"n\":{id}}}"),
                };
                let events: Vec<ControlEvent> = (first..=3).map(event).collect();
                return ControlResponse::Events(Box::pin(futures_util::stream::iter(events)));
            }
            if request.method == "POST"
                && let Err(refusal) = request.require_operator()
            {
                return refusal;
            }
            ControlResponse::json(&json!({
                "path": request.path,
                "query": request.query,
                "body": String::from_utf8_lossy(&request.body),
                "operator": request.is_operator,
                "principal": request.principal.name(),
            }))
        })
    }
}

async fn world(gate: Gate) -> World {
    let (scope, double) = (Scope::new(), Arc::new(Double::default()));
    let options = Options { gate, ..Options::default() };
    let endpoint = Arc::new(Endpoint::new(double.clone(), options, &scope).with_control(Arc::new(Echo)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    scope.spawn(serve_http(listener, endpoint.clone(), scope.clone()));
    World { address, double, endpoint, scope }
}

async fn check(world: &World, method: &str, headers: Headers<'_>, expected: (u16, Value)) {
    let reply = world.send(method, "/api/v1/status?a=b", headers, "").await;
    let json: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    let reported =
        if reply.status == 200 { json!([json["principal"], json["operator"]]) } else { Value::Null };
    assert_eq!((reply.status, reported), expected, "{method} {headers:?}: {}", reply.body);
}

#[tokio::test]
async fn the_control_api_is_behind_the_same_admission_as_mcp() {
    let gate = Gate::open().with_token(Principal::token("ann"), "s3cret").with_operator_token("0perator");
    let world = world(gate).await;
    check(&world, "GET", &[], (401, Value::Null)).await;
    check(&world, "GET", &[("authorization", "Bearer wrong")], (401, Value::Null)).await;
    let token = ("authorization", "Bearer s3cret");
    check(&world, "GET", &[token, ("origin", "http://evil.example")], (403, Value::Null)).await;
    check(&world, "GET", &[token, ("host", "evil.example")], (403, Value::Null)).await;
    check(&world, "GET", &[token], (200, json!(["ann", false]))).await;
    check(&world, "POST", &[token], (403, Value::Null)).await;
    let operator = ("authorization", "Bearer 0perator");
    check(&world, "POST", &[operator], (200, json!(["operator", true]))).await;
}

#[tokio::test]
async fn an_open_listener_makes_no_client_an_operator_but_the_token_does() {
    let world = world(Gate::open().with_operator_token("0perator")).await;
    check(&world, "GET", &[], (200, json!(["local", false]))).await;
    check(&world, "POST", &[], (403, Value::Null)).await;
    check(&world, "POST", &[("authorization", "Bearer wrong")], (403, Value::Null)).await;
    check(&world, "POST", &[("authorization", "Bearer 0perator")], (200, json!(["operator", true]))).await;
}

#[tokio::test]
async fn path_query_and_body_reach_the_handler() {
    let world = world(Gate::open().with_operator_token("0perator")).await;
    let headers = [("authorization", "Bearer 0perator")];
    let reply = world.send("POST", "/api/v1/upstreams/x/restart?now=1", &headers, "{\"a\":1}").await.json();
    assert_eq!(reply["path"], "/upstreams/x/restart");
    assert_eq!((&reply["query"], &reply["body"]), (&json!("now=1"), &json!("{\"a\":1}")));
    assert_eq!(world.send("GET", "/api/v2/status", &[], "").await.status, 404);
}

#[tokio::test]
async fn events_are_streamed_and_can_be_resumed() {
    let world = world(Gate::open()).await;
    let whole = world.send("GET", "/api/v1/events", &[], "").await;
    assert_eq!(whole.header("content-type"), "text/event-stream");
    assert!(whole.body.starts_with("id: 1\nevent: test\ndata: {\"n\":1}\n\n"), "{}", whole.body);
    let rest = world.send("GET", "/api/v1/events", &[("last-event-id", "2")], "").await;
    assert_eq!(rest.body, "id: 3\nevent: test\ndata: {\"n\":3}\n\n");
}

#[tokio::test]
async fn the_local_socket_speaks_http_too_and_its_user_is_an_operator() {
    let world = world(Gate::open().with_token(Principal::token("ann"), "s3cret")).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.sock");
    let listener = LocalListener::bind(&path).unwrap();
    world.scope.spawn(serve_local(listener, world.endpoint.clone(), world.scope.clone()));
    let mut stream = UnixStream::connect(&path).await.unwrap();
    let request =
        "POST /api/v1/stop HTTP/1.1\r\nhost: toolyard\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(reply.contains(r#""body":"{}","operator":true,"principal":"local""#), "{reply}");
}
