//! The listeners for newline JSON-RPC: which clients are accepted, which view they get, and how others are refused.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use toolyard_model::local::{self, LocalListener};
use toolyard_model::{Principal, Scope, Transport, View};
use toolyard_serve::admit::Gate;
use toolyard_serve::{Endpoint, Options, serve_local, serve_tcp};

use crate::support::{Double, initialize, modern, world};

struct Doors {
    double: Arc<Double>,
    tcp: std::net::SocketAddr,
    local: PathBuf,
    scope: Scope,
    endpoint: Arc<Endpoint>,
    _folder: tempfile::TempDir,
}

async fn doors(options: Options) -> Doors {
    let (scope, double) = (Scope::new(), Arc::new(Double::default()));
    let endpoint = Arc::new(Endpoint::new(double.clone(), options, &scope));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tcp = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let local = folder.path().join("mcp.sock");
    scope.spawn(serve_tcp(listener, endpoint.clone(), scope.clone()));
    scope.spawn(serve_local(LocalListener::bind(&local).unwrap(), endpoint.clone(), scope.clone()));
    Doors { double, tcp, local, scope, endpoint, _folder: folder }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A client on either door.
struct Client(BufReader<Box<dyn Stream>>);

impl Doors {
    async fn tcp(&self) -> Client {
        Client(BufReader::new(Box::new(TcpStream::connect(self.tcp).await.unwrap())))
    }

    async fn local(&self) -> Client {
        Client(BufReader::new(Box::new(UnixStream::connect(&self.local).await.unwrap())))
    }
}

impl Client {
    async fn send(&mut self, message: &Value) {
        self.0.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// The next line; `Null` at the end.
    async fn next(&mut self) -> Value {
        let mut line = String::new();
        let reading = self.0.read_line(&mut line);
        tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap().unwrap();
        if line.is_empty() { Value::Null } else { serde_json::from_str(&line).unwrap() }
    }

    async fn ask(&mut self, message: &Value) -> Value {
        self.send(message).await;
        self.next().await
    }
}

fn tools(id: u64) -> Value {
    let mut message = modern("tools/list", json!({}));
    message["id"] = id.into();
    message
}

#[tokio::test]
async fn clients_of_both_eras_are_served_on_both_doors() {
    let doors = doors(Options::default()).await;
    for mut client in [doors.tcp().await, doors.local().await] {
        assert_eq!(client.ask(&tools(1)).await["id"], 1);
        let greeting = client.ask(&initialize("2025-11-25")).await;
        assert_eq!(greeting["result"]["protocolVersion"], "2025-11-25", "{greeting}");
    }
}

#[tokio::test]
async fn requests_of_both_eras_carry_the_transport_of_their_connection() {
    let doors = doors(Options::default()).await;
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    for (mut client, transport) in
        [(doors.tcp().await, Transport::Tcp), (doors.local().await, local::TRANSPORT)]
    {
        client.ask(&tools(1)).await;
        client.ask(&initialize("2025-11-25")).await;
        client.ask(&list).await;
        let transports: Vec<_> = doors.double.origins.lock().drain(..).map(|one| one.transport).collect();
        assert!(transports.len() >= 2, "{transports:?}");
        assert!(transports.iter().all(|one| *one == Some(transport)), "{transports:?}");
    }
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    world.legacy(&session, "tools/list", json!({})).await;
    world.modern("tools/list", json!({})).await;
    let transports: Vec<_> = world.double.origins.lock().iter().map(|one| one.transport).collect();
    assert!(transports.len() >= 2, "{transports:?}");
    assert!(transports.iter().all(|one| *one == Some(Transport::Tcp)), "{transports:?}");
}

#[tokio::test]
async fn the_opening_line_chooses_the_view_and_is_not_answered() {
    let doors = doors(Options::default()).await;
    for mut client in [doors.tcp().await, doors.local().await] {
        client.send(&json!({ "toolyard": 1, "view": "p/work" })).await;
        assert_eq!(client.ask(&tools(7)).await["id"], 7);
    }
    let origins = doors.double.origins.lock();
    assert!(origins.iter().all(|origin| origin.view == View::Profile("work".into())), "{origins:?}");
    assert_eq!(origins.len(), 2);
}

#[tokio::test]
async fn a_view_that_is_not_there_is_refused_and_the_connection_closed() {
    let doors = doors(Options::default()).await;
    let mut client = doors.local().await;
    let refusal = client.ask(&json!({ "toolyard": 1, "view": "missing" })).await;
    assert_eq!(refusal["error"]["code"], -32600, "{refusal}");
    assert!(refusal["error"]["message"].as_str().unwrap().contains("missing"), "{refusal}");
    assert_eq!(client.next().await, Value::Null);
}

#[tokio::test]
async fn over_tcp_a_token_is_asked_for_where_there_is_one_and_the_owner_needs_none() {
    let gate = Gate::open().with_token(Principal::token("ann"), "sesame");
    let doors = doors(Options { gate, ..Options::default() }).await;
    let mut without = doors.tcp().await;
    let refusal = without.ask(&tools(3)).await;
    assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!(3), &json!(-32600)));
    assert_eq!(without.next().await, Value::Null);
    let mut wrong = doors.tcp().await;
    assert_eq!(wrong.ask(&json!({ "toolyard": 1, "token": "simsim" })).await["error"]["code"], -32600);
    assert_eq!(wrong.next().await, Value::Null);
    let mut right = doors.tcp().await;
    right.send(&json!({ "toolyard": 1, "token": "sesame" })).await;
    assert_eq!(right.ask(&tools(4)).await["id"], 4);
    assert_eq!(doors.local().await.ask(&tools(5)).await["id"], 5);
    let names: Vec<_> = doors.double.origins.lock().iter().map(|o| o.principal.name().to_string()).collect();
    assert_eq!(names, ["ann", "local"]);
}

#[tokio::test(start_paused = true)]
async fn a_required_token_that_does_not_arrive_in_time_is_an_error() {
    let gate = Gate::open().with_token(Principal::token("ann"), "sesame");
    let doors = doors(Options { gate, ..Options::default() }).await;
    let mut silent = doors.tcp().await;
    let mut line = String::new();
    silent.0.read_line(&mut line).await.unwrap();
    assert!(line.contains("did not arrive in time"), "{line}");
}

#[tokio::test]
async fn a_connection_beyond_the_limit_gets_an_error_and_is_closed() {
    let doors = doors(Options { connections: 1, ..Options::default() }).await;
    let mut first = doors.tcp().await;
    assert_eq!(first.ask(&tools(1)).await["id"], 1);
    let mut second = doors.tcp().await;
    let refusal = second.next().await;
    assert!(refusal["error"]["message"].as_str().unwrap().contains("too many connections"), "{refusal}");
    assert_eq!(second.next().await, Value::Null);
    drop(first);
    tokio::time::timeout(Duration::from_secs(10), doors.endpoint.deserted(Duration::ZERO)).await.unwrap();
}

#[tokio::test]
async fn when_the_endpoint_ends_connections_close_and_the_socket_goes() {
    let doors = doors(Options::default()).await;
    let (mut talking, mut silent) = (doors.local().await, doors.local().await);
    assert_eq!(talking.ask(&tools(1)).await["id"], 1);
    doors.endpoint.end(Duration::from_secs(5)).await;
    assert_eq!((talking.next().await, silent.next().await), (Value::Null, Value::Null));
    doors.scope.end().await;
    assert!(!doors.local.exists());
}

#[tokio::test]
async fn a_handler_that_panics_gives_each_request_its_one_answer() {
    let (doors, world) = (doors(Options::default()).await, crate::support::world().await);
    let mut client = doors.tcp().await;
    let requests = [("tools/call", json!({ "name": "panic" })), ("panics/at-once", json!({}))];
    for (method, params) in &requests {
        let reply = world.modern(method, params.clone()).await.json();
        assert_eq!(reply["error"]["code"], -32603, "{reply}");
        assert!(!reply.to_string().contains("on purpose"), "{reply}");
        client.send(&modern(method, params.clone())).await;
        let answer = client.next().await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32603), &json!(1)), "{answer}");
    }
    // The same connection goes on, and so does a legacy session.
    client.send(&modern("tools/list", json!({}))).await;
    assert!(client.next().await["result"]["tools"].is_array());
    let session = world.initialize("2025-11-25").await;
    for (method, params) in requests {
        let reply = world.legacy(&session, method, params).await;
        let answers = if reply.header("content-type").starts_with("application/json") {
            vec![reply.json()]
        } else {
            reply.events()
        };
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(answers[0]["error"]["code"], -32603, "{answers:?}");
    }
}
