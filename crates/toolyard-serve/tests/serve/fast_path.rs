//! Requests as bytes on a connection: plain ones, which are served by hand, and others, which hyper serves.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use toolyard_model::Principal;
use toolyard_proto::token::{Rules, Secret};
use toolyard_serve::Options;
use toolyard_serve::admit::{Gate, Signed};

use crate::support::{World, initialize, modern, until, world, world_with};

/// A field that changes nothing but which code serves the request.
const UNUSUAL: &str = "connection: keep-alive, nothing-else";

struct Client {
    stream: BufReader<TcpStream>,
}

#[derive(Debug, PartialEq)]
struct Answer {
    status: String,
    /// Without the date.
    fields: Vec<String>,
    body: String,
}

impl Client {
    async fn new(world: &World) -> Self {
        let stream = TcpStream::connect(&world.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    async fn write(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        timeout(Duration::from_secs(10), self.stream.read_line(&mut line)).await.unwrap().unwrap();
        line
    }

    async fn bytes(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        timeout(Duration::from_secs(10), self.stream.read_exact(&mut bytes)).await.unwrap().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    async fn answer(&mut self) -> Answer {
        let status = self.line().await;
        let mut fields = Vec::new();
        loop {
            match self.line().await.trim_end() {
                "" => break,
                field => fields.push(field.to_owned()),
            }
        }
        let dates = fields.extract_if(.., |field| field.starts_with("date: ")).count();
        assert_eq!(dates, 1, "{fields:?}");
        fields.sort();
        let length = fields.iter().find_map(|field| field.strip_prefix("content-length: "));
        let body = match length {
            Some(length) => self.bytes(length.parse().unwrap()).await,
            None => self.chunks().await,
        };
        Answer { status: status.trim_end().to_owned(), fields, body }
    }

    async fn chunks(&mut self) -> String {
        let mut body = String::new();
        loop {
            let size = usize::from_str_radix(self.line().await.trim_end(), 16).unwrap();
            body += &self.bytes(size).await;
            assert_eq!(self.line().await, "\r\n");
            if size == 0 {
                return body;
            }
        }
    }

    /// What else comes until the server closes.
    async fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.stream.read_to_string(&mut rest).await.unwrap();
        rest
    }
}

fn post(world: &World, path: &str, fields: &[&str], body: &str) -> String {
    let fields: Vec<_> = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let (address, length) = (&world.address, body.len());
    format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\n{}Content-Length: {length}\r\n\r\n{body}",
        fields.concat()
    )
}

const JSON: &str = "Content-Type: application/json";
const MODERN: &str = "MCP-Protocol-Version: 2026-07-28";

/// A call of a modern client.
fn call(world: &World, id: u64, name: &str, arguments: &Value, more: &[&str]) -> String {
    let mut body = modern("tools/call", json!({ "name": name, "arguments": arguments }));
    body["id"] = id.into();
    let name = format!("Mcp-Name: {name}");
    let fields = [&[JSON, MODERN, "Mcp-Method: tools/call", &name], more].concat();
    post(world, "/mcp", &fields, &body.to_string())
}

/// The same request, served by hand and by hyper.
async fn check_same(world: &World, path: &str, fields: &[&str], body: &str) {
    let mut usual = Client::new(world).await;
    usual.write(&post(world, path, fields, body)).await;
    let mut other = Client::new(world).await;
    other.write(&post(world, path, &[fields, &[UNUSUAL]].concat(), body)).await;
    let (mut usual, mut other) = (usual.answer().await, other.answer().await);
    // Sessions have names of their own.
    let is_session = |field: &String| field.starts_with("mcp-session-id");
    assert_eq!(
        usual.fields.extract_if(.., |f| is_session(f)).count(),
        other.fields.extract_if(.., |f| is_session(f)).count()
    );
    assert_eq!(usual, other, "{path} {fields:?} {body:.200}");
}

#[tokio::test]
async fn the_fast_path_and_hyper_give_the_same_answers() {
    let gate = Gate::open().with_token(Principal::token("ann"), "s3cret");
    let closed = world_with(Options { gate, ..Options::default() }).await;
    let open = world_with(Options { body_limit: 2_000, ..Options::default() }).await;
    for (tool, arguments) in [
        ("echo", json!({})),
        ("big", json!({ "size": 15_000 })),
        ("big", json!({ "size": 3_000_000 })),
        ("notify", json!({ "count": 3 })),
        ("log", json!({})),
        ("lost", json!({})),
        ("panic", json!({})),
        ("missing_capability", json!({})),
        ("relay_json", json!({})),
        ("relay_sse", json!({})),
        ("relay_json", json!({ "notify": true })),
    ] {
        let body = modern("tools/call", json!({ "name": tool, "arguments": arguments })).to_string();
        let name = format!("mcp-name: {tool}");
        let fields = [JSON, MODERN, "mcp-method: tools/call", name.as_str()];
        check_same(&open, "/mcp", &fields, &body).await;
        check_same(&open, "/mcp/files", &fields, &body).await;
        check_same(&open, "/mcp/missing", &fields, &body).await;
        check_same(&open, "/mcp/hub", &fields, &body).await;
        check_same(&closed, "/mcp", &fields, &body).await;
        check_same(&closed, "/mcp", &[&fields[..], &["Authorization: Bearer s3cret"]].concat(), &body).await;
        check_same(&open, "/mcp", &fields[..3], &body).await;
        check_same(&open, "/mcp", &[&fields[..], &[MODERN]].concat(), &body).await;
        check_same(&open, "/mcp", &[&fields[..], &["Origin: http://evil.example"]].concat(), &body).await;
        check_same(&open, "/mcp", &[&fields[..], &["Host: evil.example"]].concat(), &body).await;
    }
    let hello = initialize("2025-11-25").to_string();
    let long = "x".repeat(3_000);
    let deep = "[".repeat(200);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for body in
        [hello.as_str(), list, "", "{", "7", "[]", "[1]", &deep, &long, r#"{"jsonrpc":"2.0","method":"x"}"#]
    {
        for path in ["/mcp", "/mcp/", "/mcp/p/x", "/", "/sse", "/healthz", "/readyz"] {
            check_same(&open, path, &[JSON], body).await;
            check_same(&open, path, &[JSON, "accept: text/html"], body).await;
            check_same(&open, path, &[JSON, "accept: text/html", "accept: */*"], body).await;
            check_same(&open, path, &[JSON, "mcp-session-id: missing"], body).await;
            check_same(&open, path, &["content-type: text/plain"], body).await;
            check_same(&open, path, &[], body).await;
        }
    }
}

#[tokio::test]
async fn a_request_may_come_in_two_pieces_cut_anywhere() {
    let world = world().await;
    let request = call(&world, 1, "echo", &json!({ "text": "ä" }), &[]);
    let cuts: Vec<_> = (1..request.len()).filter(|&cut| request.is_char_boundary(cut)).collect();
    for cut in cuts {
        let mut client = Client::new(&world).await;
        client.write(&request[..cut]).await;
        // Time to be read alone; if it is not, that is a case as well.
        sleep(Duration::from_micros(100)).await;
        client.write(&request[cut..]).await;
        let answer = client.answer().await;
        assert_eq!((&*answer.status, answer.body.contains("\"echo\"")), ("HTTP/1.1 200 OK", true), "{cut}");
        // The connection is still served.
        client.write(&request).await;
        assert_eq!(client.answer().await, answer);
    }
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_their_order() {
    let world = world().await;
    let mut client = Client::new(&world).await;
    let none = json!({});
    let usual = |id| call(&world, id, "echo", &none, &[]);
    let stream = call(&world, 3, "notify", &json!({ "count": 2 }), &[]);
    let unusual = call(&world, 5, "echo", &none, &[UNUSUAL]);
    client.write(&[usual(1), usual(2), stream, usual(4), unusual, usual(6), usual(7)].concat()).await;
    for id in 1..=7 {
        let answer = client.answer().await;
        assert!(answer.body.contains(&format!("\"id\":{id},")), "{id}: {answer:?}");
    }
    assert_eq!(world.double.started.load(Ordering::SeqCst), 7);
}

#[tokio::test]
async fn requests_during_a_call_are_answered_after_it() {
    let world = world().await;
    let mut client = Client::new(&world).await;
    client.write(&call(&world, 1, "wait", &json!({}), &[])).await;
    until("the call has begun", || world.double.started.load(Ordering::SeqCst) == 1).await;
    // More than is read ahead.
    let more: String = (2..100).map(|id| call(&world, id, "echo", &json!({}), &[])).collect();
    client.write(&more).await;
    world.double.gate.notify_one();
    for id in 1..100 {
        let answer = client.answer().await;
        assert!(answer.body.contains(&format!("\"id\":{id},")), "{id}: {answer:?}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_ends_the_connection_and_has_no_end() {
    let world = world().await;
    let mut client = Client::new(&world).await;
    client.write(&call(&world, 1, "relay_broken", &json!({}), &[])).await;
    let rest = client.rest().await;
    assert!(rest.ends_with("9\r\ndata: 1\n\n\r\n"), "{rest}");
}

#[tokio::test]
async fn an_event_stream_that_breaks_ends_with_an_error_and_the_connection_stays() {
    let world = world().await;
    let mut client = Client::new(&world).await;
    for id in 1..3 {
        client.write(&call(&world, id, "events_broken", &json!({}), &[])).await;
        let body = client.answer().await.body;
        assert!(body.starts_with("data: 1\n\n"), "{body}");
        let last = body.rsplit_once("data: ").unwrap().1;
        let last: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!((&last["id"], &last["error"]["message"]), (&json!(id), &json!("broken off")));
    }
}

#[tokio::test]
async fn a_client_that_accepts_no_data_is_disconnected() {
    let world = world_with(Options { patience: Duration::from_millis(50), ..Options::default() }).await;
    let mut client = Client::new(&world).await;
    client.write(&call(&world, 1, "flood", &json!({}), &[])).await;
    until("the call is dropped", || world.double.dropped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_though_it_has_taken_nothing() {
    let world = world_with(Options { patience: Duration::from_hours(1), ..Options::default() }).await;
    for more in [&[][..], &[UNUSUAL]] {
        world.double.dropped.store(0, Ordering::SeqCst);
        let mut client = Client::new(&world).await;
        client.write(&call(&world, 1, "flood", &json!({}), more)).await;
        // The call runs as long as its data fits.
        let (mut sent, mut same) = (0, 0);
        until("nothing more fits", || {
            let now = world.double.flooded.load(Ordering::SeqCst);
            same = if now == sent && now > 0 { same + 1 } else { 0 };
            sent = now;
            same > 50
        })
        .await;
        client.stream.shutdown().await.unwrap();
        until("the call is dropped", || world.double.dropped.load(Ordering::SeqCst) == 1).await;
    }
}

#[tokio::test]
async fn a_client_that_closes_its_side_has_left() {
    let world = world().await;
    let waiting = [1, 2].map(|id| call(&world, id, "hang", &json!({}), &[]));
    for requests in [&waiting[..1], &waiting] {
        world.double.dropped.store(0, Ordering::SeqCst);
        let mut client = Client::new(&world).await;
        client.write(&requests.concat()).await;
        client.stream.shutdown().await.unwrap();
        until("the call is dropped", || world.double.dropped.load(Ordering::SeqCst) == 1).await;
        assert_eq!(client.rest().await, "");
    }
}

#[tokio::test]
async fn a_client_that_has_sent_more_than_is_read_ahead_is_noticed_at_the_second_keep_alive() {
    let world = world_with(Options { keep_alive: Duration::from_millis(30), ..Options::default() }).await;
    for more in [&[][..], &[UNUSUAL]] {
        world.double.dropped.store(0, Ordering::SeqCst);
        let mut client = Client::new(&world).await;
        client.write(&call(&world, 1, "hang", &json!({}), more)).await;
        client.write(&call(&world, 2, "echo", &json!({ "text": "x".repeat(20_000) }), more)).await;
        drop(client);
        until("the call is dropped", || world.double.dropped.load(Ordering::SeqCst) == 1).await;
    }
}

#[tokio::test]
async fn a_single_use_token_is_valid_for_its_connection_on_the_fast_path_and_in_hyper() {
    let secret = Secret::parse("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let signed = format!("authorization: Bearer {}", secret.mint("ann", now));
    let rules = Rules { secrets: vec![secret], window: Rules::WINDOW, skew: Rules::SKEW };
    let gate = Gate::open().with_token(Principal::token("bob"), "s3cret").with_signed(Signed::new(rules));
    let world = world_with(Options { gate, ..Options::default() }).await;
    let mut client = Client::new(&world).await;
    let fixed = "authorization: Bearer s3cret";
    for fields in [&[fixed][..], &[&signed], &[&signed], &[&signed, UNUSUAL], &[&signed], &[fixed]] {
        client.write(&call(&world, 1, "echo", &json!({}), fields)).await;
        assert_eq!(client.answer().await.status, "HTTP/1.1 200 OK", "{fields:?}");
    }
    let mut thief = Client::new(&world).await;
    thief.write(&call(&world, 1, "echo", &json!({}), &[&signed])).await;
    assert_eq!(thief.answer().await.status, "HTTP/1.1 401 Unauthorized");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_a_minute_after_its_last_answer() {
    let world = world().await;
    let mut client = Client::new(&world).await;
    let begun = Instant::now();
    for _ in 0..3 {
        sleep(Duration::from_secs(40)).await;
        client.write(&call(&world, 1, "echo", &json!({}), &[])).await;
        client.answer().await;
    }
    assert_eq!(client.rest().await, "");
    assert_eq!(begun.elapsed().as_secs(), 3 * 40 + 60);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_byte_by_byte_has_a_minute_in_all() {
    let world = world().await;
    let request = call(&world, 1, "echo", &json!({}), &[]);
    for before in [None, Some(&[][..]), Some(&[UNUSUAL])] {
        let mut client = Client::new(&world).await;
        if let Some(fields) = before {
            client.write(&call(&world, 1, "echo", &json!({}), fields)).await;
            client.answer().await;
        }
        let begun = Instant::now();
        for at in 0..5 {
            sleep(Duration::from_secs(10)).await;
            client.write(&request[at..=at]).await;
        }
        assert_eq!(client.rest().await, "", "{before:?}");
        assert_eq!(begun.elapsed().as_secs(), 60, "{before:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_minute_for_a_head_does_not_count_for_what_follows() {
    let world = world().await;
    let mut client = Client::new(&world).await;
    let request = call(&world, 1, "echo", &json!({}), &[]);
    let (first, rest) = request.split_at(10);
    for _ in 0..3 {
        sleep(Duration::from_secs(40)).await;
        client.write(first).await;
        sleep(Duration::from_secs(10)).await;
        client.write(rest).await;
        assert_eq!(client.answer().await.status, "HTTP/1.1 200 OK");
    }
}

#[tokio::test]
async fn at_the_end_calls_are_answered_and_idle_connections_closed() {
    let world = world().await;
    let (mut idle, mut busy) = (Client::new(&world).await, Client::new(&world).await);
    idle.write(&call(&world, 1, "echo", &json!({}), &[])).await;
    idle.answer().await;
    busy.write(&call(&world, 1, "wait", &json!({}), &[])).await;
    until("the call has begun", || world.double.started.load(Ordering::SeqCst) == 2).await;
    let ending = async {
        assert_eq!(idle.rest().await, "");
        world.double.gate.notify_one();
    };
    tokio::join!(world.endpoint.end(Duration::from_secs(5)), ending);
    let answer = busy.answer().await;
    assert!(answer.fields.contains(&"connection: close".to_owned()), "{answer:?}");
    assert_eq!(busy.rest().await, "");
}

/// A client has sent a part of a request when the end comes: the rest is not waited for. It may get an error.
async fn check_at_the_end(before: Option<&[&str]>, part: impl Fn(&World) -> String) {
    let world = world().await;
    let mut client = Client::new(&world).await;
    if let Some(fields) = before {
        client.write(&call(&world, 1, "echo", &json!({}), fields)).await;
        client.answer().await;
    }
    let part = part(&world);
    client.write(&part).await;
    // Time to be read; if it is not, that is a case as well.
    sleep(Duration::from_millis(5)).await;
    ends_soon(&world).await;
    let rest = client.rest().await;
    assert!(rest.is_empty() || rest.starts_with(ENDING), "{before:?} {part} {rest}");
}

const ENDING: &str = "HTTP/1.1 503 Service Unavailable\r\n";

async fn ends_soon(world: &World) {
    let begun = Instant::now();
    world.endpoint.end(Duration::from_secs(30)).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "it waited");
}

#[tokio::test]
async fn at_the_end_the_rest_of_a_request_is_not_waited_for() {
    for before in [None, Some(&[][..]), Some(&[UNUSUAL])] {
        check_at_the_end(before, |_| String::new()).await;
        check_at_the_end(before, |_| "POST /mcp HTTP/1.1\r\nHost: a".to_owned()).await;
        for more in [&[][..], &[UNUSUAL]] {
            let half = |world: &World| {
                let mut request = call(world, 1, "echo", &json!({}), more);
                request.truncate(request.len() - 5);
                request
            };
            check_at_the_end(before, half).await;
        }
    }
}

#[tokio::test]
async fn at_the_end_a_client_whose_body_is_awaited_gets_an_error() {
    let world = world().await;
    let mut client = Client::new(&world).await;
    let request = call(&world, 1, "echo", &json!({}), &["Expect: 100-continue"]);
    let (head, _) = request.split_once("\r\n\r\n").unwrap();
    client.write(&format!("{head}\r\n\r\n")).await;
    assert_eq!(client.line().await, "HTTP/1.1 100 Continue\r\n");
    assert_eq!(client.line().await, "\r\n");
    ends_soon(&world).await;
    let rest = client.rest().await;
    assert!(rest.starts_with(ENDING) && rest.contains("\r\nconnection: close\r\n"), "{rest}");
    assert_eq!(world.double.started.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn at_the_end_a_call_is_answered_though_half_a_request_follows_it() {
    for more in [&[][..], &[UNUSUAL]] {
        let world = world().await;
        let mut client = Client::new(&world).await;
        let both = call(&world, 1, "wait", &json!({}), more) + "POST /mcp HTTP/1.1\r\n";
        client.write(&both).await;
        until("the call has begun", || world.double.started.load(Ordering::SeqCst) == 1).await;
        let answering = async {
            world.double.gate.notify_one();
            client.answer().await
        };
        let ((), answer) = tokio::join!(ends_soon(&world), answering);
        assert!(answer.fields.contains(&"connection: close".to_owned()), "{answer:?}");
    }
}
