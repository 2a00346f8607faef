//! Sums that are bounded over all clients, and what pages in a browser may do.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolyard_model::Principal;
use toolyard_proto::Method;
use toolyard_serve::Options;
use toolyard_serve::admit::Gate;

use crate::support::{World, initialize, until, world, world_with};

/// Sends `bytes` bytes of a body of twice that length and waits.
async fn half_a_body(world: &World, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(&world.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        world.address,
        2 * bytes
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; bytes]).await.unwrap();
    stream
}

#[tokio::test]
async fn beyond_the_limit_of_all_bodies_a_request_is_refused_and_may_come_again() {
    const SIZE: usize = 100_000;
    let world = world_with(Options { bodies_limit: 4 * SIZE + SIZE / 2, ..Options::default() }).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(half_a_body(&world, SIZE).await);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut refused = half_a_body(&world, SIZE).await;
    let mut reply = vec![0; 512];
    let count =
        tokio::time::timeout(Duration::from_secs(10), refused.read(&mut reply)).await.unwrap().unwrap();
    let reply = String::from_utf8_lossy(&reply[..count]).to_lowercase();
    assert!(reply.starts_with("http/1.1 503") && reply.contains("retry-after: 1"), "{reply}");
    drop((held, refused));
    let padding = "x".repeat(2 * SIZE);
    let mut status = 0;
    for _ in 0..100 {
        let call = json!({ "name": "echo", "arguments": { "padding": padding } });
        status = world.modern("tools/call", call).await.status;
        if status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(status, 200, "what was held is free again");
}

#[tokio::test]
async fn a_session_keeps_at_most_64_kib_of_its_handshake() {
    let world = world().await;
    let with = |size: usize| {
        let mut body = initialize("2025-11-25");
        body["params"]["capabilities"] = json!({ "experimental": { "x": "y".repeat(size) } });
        body
    };
    let refused: Value = world.post(&[], &with(64 * 1024)).await.json();
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(world.endpoint.sessions(), 0);
    assert!(world.post(&[], &with(60 * 1024)).await.json()["result"].is_object());
}

#[tokio::test]
async fn a_session_without_a_reader_gets_one_notification_that_a_list_has_changed() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    until("the session listens", || !world.double.listeners.lock().is_empty()).await;
    for _ in 0..100 {
        world.double.announce(&Method::TOOLS_CHANGED, None);
        world.double.announce(&Method::PROMPTS_CHANGED, None);
    }
    let mut live = world.open_get(&[("mcp-session-id", &session)]).await;
    let mut methods = Vec::new();
    while let Ok(Some(message)) = tokio::time::timeout(Duration::from_millis(300), live.message()).await {
        methods.push(message["method"].as_str().unwrap_or_default().to_owned());
    }
    methods.sort();
    assert_eq!(methods, ["notifications/prompts/list_changed", "notifications/tools/list_changed"]);
}

#[tokio::test]
async fn a_page_of_an_admitted_origin_may_call() {
    let gate = Gate::open().with_token(Principal::token("ann"), "s3cret");
    let origins = vec!["https://app.example".to_owned()];
    let world = world_with(Options { gate, origins, ..Options::default() }).await;
    let origin = ("origin", "https://app.example");
    // What Chrome sends before a fetch with a token and MCP's headers.
    let preflight = [
        origin,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,mcp-method,mcp-protocol-version"),
        ("access-control-request-private-network", "true"),
    ];
    let reply = world.send("OPTIONS", "/mcp", &preflight, "").await;
    assert_eq!(reply.status, 204, "{reply:?}");
    assert_eq!(reply.header("access-control-allow-origin"), "https://app.example");
    assert!(reply.header("access-control-allow-headers").contains("mcp-method"));
    assert!(reply.header("access-control-allow-methods").contains("DELETE"));
    assert_eq!(reply.header("access-control-allow-private-network"), "true");
    assert_eq!(reply.header("vary"), "origin");
    let evil = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    let refused = world.send("OPTIONS", "/mcp", &evil, "").await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, ""));
    // The response can be read, whether it is an answer or an error.
    let body = initialize("2025-11-25");
    let answer = world.post(&[origin, ("authorization", "Bearer s3cret")], &body).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, "https://app.example"));
    assert!(answer.header("access-control-expose-headers").contains("mcp-session-id"));
    let unauthorized = world.post(&[origin], &body).await;
    assert_eq!(unauthorized.status, 401);
    assert_eq!(unauthorized.header("access-control-allow-origin"), "https://app.example");
}
