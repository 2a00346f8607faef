//! What is checked before a message becomes a call, and with which status it is refused.

use serde_json::{Value, json};
use toolyard_model::{ClientKey, Principal};
use toolyard_serve::Options;
use toolyard_serve::admit::Gate;

use crate::support::{Headers, World, modern, world, world_with};

/// The expected code is 0 where there is not JSON-RPC error in the body.
async fn check(world: &World, request: (&str, &str), headers: Headers<'_>, body: &str, expected: (u16, i64)) {
    let (method, path) = request;
    let reply = world.send(method, path, headers, body).await;
    let code =
        serde_json::from_str::<Value>(&reply.body).ok().and_then(|body| body["error"]["code"].as_i64());
    assert_eq!((reply.status, code.unwrap_or(0)), expected, "{request:?} {headers:?} {body:.200} {reply:?}");
    assert!(!reply.body.contains("\"id\":null"), "{reply:?}");
}

const JSON: (&str, &str) = ("content-type", "application/json");
const POST: (&str, &str) = ("POST", "/mcp");

#[tokio::test]
async fn a_request_that_is_not_a_message_is_refused() {
    let world = world_with(Options { body_limit: 2_000, ..Options::default() }).await;
    let deep = "[".repeat(200);
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(3_000));
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for (headers, body, expected) in [
        (&[][..], list, (415, 0)),
        (&[("content-type", "text/plain")], list, (415, 0)),
        (&[("content-type", "application/json; charset=utf-8")], "{", (400, -32700)),
        (&[JSON], "", (400, -32700)),
        (&[JSON], "7", (400, -32600)),
        (&[JSON], r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, (400, -32600)),
        (&[JSON], "[]", (400, -32600)),
        (&[JSON], "[1]", (400, -32600)),
        (&[JSON], &deep, (400, -32600)),
        (&[JSON], &long, (413, 0)),
        (&[JSON, ("accept", "text/html")], list, (406, 0)),
        (&[JSON, ("accept", "*/*")], list, (400, -32600)),
        (&[JSON], list, (400, -32600)),
        (&[JSON], r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, (400, -32600)),
        (&[JSON], r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, (400, -32600)),
        (&[JSON, ("mcp-session-id", "x")], list, (404, -32600)),
        (&[JSON, ("mcp-session-id", "x"), ("mcp-protocol-version", "x")], list, (400, -32600)),
    ] {
        check(&world, POST, headers, body, expected).await;
    }
}

#[tokio::test]
async fn a_body_without_a_length_is_bounded_too() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let world = world_with(Options { body_limit: 2_000, ..Options::default() }).await;
    let mut stream = tokio::net::TcpStream::connect(&world.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nfff\r\n{}\r\n0\r\n\r\n",
        world.address,
        "x".repeat(0xfff)
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
}

#[tokio::test]
async fn web_pages_of_others_are_kept_out() {
    let world = world().await;
    let good = modern("server/discover", json!({})).to_string();
    let host = world.address.clone();
    let origin = format!("http://{host}");
    for (extra, status) in [
        (&[("host", "evil.example.com"), ("origin", "http://evil.example.com")][..], 403),
        (&[("host", "evil.example.com")], 403),
        (&[("host", &*host), ("origin", "http://evil.example.com")], 403),
        (&[("host", &*host), ("origin", &*origin)], 200),
        (&[("host", "localhost:1"), ("origin", "http://localhost:6274")], 200),
    ] {
        let mut headers =
            vec![JSON, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "server/discover")];
        headers.extend_from_slice(extra);
        check(&world, POST, &headers, &good, (status, 0)).await;
    }
}

#[tokio::test]
async fn paths_and_methods_lead_where_they_say() {
    let world = world().await;
    let discover = modern("server/discover", json!({})).to_string();
    let good = &[JSON, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "server/discover")][..];
    for (request, headers, expected) in [
        (("GET", "/healthz"), &[][..], (200, 0)),
        (("GET", "/readyz"), &[], (200, 0)),
        (("GET", "/else"), &[], (404, 0)),
        (("GET", "/mcpx"), &[], (404, 0)),
        (("GET", "/mcp"), &[], (405, 0)),
        (("DELETE", "/mcp"), &[], (405, 0)),
        (("PUT", "/mcp"), &[], (405, 0)),
        (("GET", "/mcp"), &[("mcp-session-id", "x"), ("accept", "text/event-stream")], (404, -32600)),
        (("DELETE", "/mcp"), &[("mcp-session-id", "x")], (404, -32600)),
        (("POST", "/mcp/"), good, (200, 0)),
        (("POST", "/mcp/files"), good, (200, 0)),
        (("POST", "/mcp/p/work"), good, (200, 0)),
        (("POST", "/mcp/missing"), good, (404, 0)),
        (("POST", "/mcp/a/b/c"), good, (404, 0)),
        // The hub lives in a session: no modern error, so that clients fall back.
        (("POST", "/mcp/hub"), good, (400, 0)),
    ] {
        check(&world, request, headers, &discover, expected).await;
    }
}

#[tokio::test]
async fn a_token_is_asked_for_where_there_is_one() {
    let gate = Gate::open().with_token(Principal::token("ann"), "s3cret");
    let world = world_with(Options { gate, ..Options::default() }).await;
    let body = modern("server/discover", json!({}));
    let call = async |headers: Headers<'static>| {
        let mut all = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", "server/discover")];
        all.extend_from_slice(headers);
        world.post(&all, &body).await
    };
    for headers in [&[][..], &[("authorization", "Bearer wrong")], &[("authorization", "Basic s3cret")]] {
        let reply = call(headers).await;
        assert_eq!(reply.status, 401);
        assert!(reply.header("www-authenticate").starts_with("Bearer"), "{reply:?}");
    }
    assert_eq!(call(&[("authorization", "Bearer s3cret")]).await.status, 200);
    let origins = world.double.origins.lock();
    assert_eq!(origins[0].client, ClientKey::Principal(Principal::token("ann")));
    assert_eq!(origins.len(), 1);
}

#[tokio::test]
async fn without_a_token_every_modern_request_is_its_own_client() {
    let world = world().await;
    world.modern("tools/list", json!({})).await;
    world.modern("tools/list", json!({})).await;
    let origins = world.double.origins.lock();
    assert!(matches!(origins[0].client, ClientKey::Request(_)));
    assert_ne!(origins[0].client, origins[1].client);
}

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

#[tokio::test]
async fn a_modern_envelope_is_checked_before_anything_is_done() {
    let world = world().await;
    let good = modern("tools/list", json!({}));
    let without = |key: &str| {
        let mut body = good.clone();
        body["params"]["_meta"].as_object_mut().unwrap().remove(&format!("io.modelcontextprotocol/{key}"));
        body
    };
    let unknown = json!(good.to_string().replace("2026-07-28", "v999.0.0"));
    let unknown: Value = serde_json::from_str(unknown.as_str().unwrap()).unwrap();
    let bare = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {} });
    let list = ("mcp-method", "tools/list");
    for (headers, body, expected) in [
        (&[VERSION, list][..], &good, (200, 0)),
        (&[VERSION, ("mcp-method", "server/discover")], &bare, (400, -32602)),
        (&[VERSION, list], &without("protocolVersion"), (400, -32602)),
        (&[VERSION, list], &without("clientCapabilities"), (400, -32602)),
        (&[("mcp-protocol-version", "v999.0.0"), list], &unknown, (400, -32022)),
        (&[VERSION, list], &unknown, (400, -32020)),
        (&[list], &good, (400, -32020)),
        (&[VERSION], &good, (400, -32020)),
        (&[VERSION, ("mcp-method", "prompts/list")], &good, (400, -32020)),
        (&[VERSION, ("mcp-method", "TOOLS/LIST")], &good, (400, -32020)),
        (&[VERSION, ("MCP-METHOD", "tools/list")], &good, (200, 0)),
        (&[VERSION, list, list], &good, (400, -32020)),
    ] {
        let mut all = vec![JSON];
        all.extend_from_slice(headers);
        check(&world, POST, &all, &body.to_string(), expected).await;
    }
}

#[tokio::test]
async fn the_name_in_the_header_is_the_name_in_the_body() {
    let world = world().await;
    let call = modern("tools/call", json!({ "name": "echo" })).to_string();
    for (name, expected) in [
        (Some("echo"), (200, 0)),
        (Some("=?base64?ZWNobw==?="), (200, 0)),
        (Some("x"), (400, -32020)),
        (None, (400, -32020)),
    ] {
        let mut headers = vec![JSON, VERSION, ("mcp-method", "tools/call")];
        headers.extend(name.map(|name| ("mcp-name", name)));
        check(&world, POST, &headers, &call, expected).await;
    }
}

#[tokio::test]
async fn the_status_of_a_modern_error_follows_from_the_error() {
    let world = world().await;
    for (method, name, expected) in [
        ("initialize", "", (404, -32601)),
        ("ping", "", (404, -32601)),
        ("logging/setLevel", "", (404, -32601)),
        ("resources/subscribe", "", (404, -32601)),
        ("resources/unsubscribe", "", (404, -32601)),
        ("unknown/method", "", (404, -32601)),
        ("resources/read", "", (200, -32602)),
        ("tools/call", "missing_capability", (400, -32021)),
        ("tools/call", "lost", (200, -32603)),
    ] {
        let params = if name.is_empty() { json!({}) } else { json!({ "name": name }) };
        let reply = world.modern(method, params).await;
        let body = reply.json();
        assert_eq!((reply.status, body["error"]["code"].as_i64().unwrap()), expected, "{method} {name}");
        assert_eq!(body["id"], 1);
    }
}

#[tokio::test]
async fn parameter_headers_reach_the_handler() {
    let world = world().await;
    let headers = &[VERSION, ("mcp-method", "tools/call"), ("mcp-name", "echo"), ("mcp-param-region", "eu")];
    assert_eq!(world.post(headers, &modern("tools/call", json!({ "name": "echo" }))).await.status, 200);
    let requests = world.double.requests.lock();
    assert_eq!(requests[0].headers.as_ref().unwrap()["mcp-param-region"], "eu");
    assert!(requests[0].relay);
}

#[tokio::test]
async fn connections_beyond_the_limit_get_an_error() {
    use tokio::io::AsyncReadExt;
    let world = world_with(Options { connections: 1, ..Options::default() }).await;
    let _first = world.open_modern("tools/call", json!({ "name": "notify_and_wait" })).await;
    let mut second = tokio::net::TcpStream::connect(&world.address).await.unwrap();
    let mut text = String::new();
    second.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 503"), "{text}");
}
