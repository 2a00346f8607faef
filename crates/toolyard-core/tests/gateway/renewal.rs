//! What clients set up at an upstream that remembers it, after the connection with that state is gone.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, split};
use tokio_util::sync::CancellationToken;
use toolyard_core::{Connect, Connected, Gateway, Plan, Sharing, Timeouts, UpstreamKind, UpstreamPlan};
use toolyard_link::stream::StreamLink;
use toolyard_model::{BoxFuture, Greeting, Scope};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Reason, Revision};

use crate::support::{Client, raw};

/// A program with a resource to watch and a log level to set; it accepts everything.
#[derive(Clone, Default)]
struct Program {
    connects: Arc<AtomicUsize>,
    /// What each connection received, in order.
    seen: Arc<Mutex<Vec<(usize, Value)>>>,
    running: Arc<Mutex<HashMap<usize, CancellationToken>>>,
    /// Whether its era is inferred from its silence.
    silent: bool,
    /// The known revision at each connect.
    known: Arc<Mutex<Vec<Option<Revision>>>>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("program")
    }
}

impl Connect for Program {
    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        self.known.lock().push(known);
        let number = self.connects.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let end = CancellationToken::new();
        self.running.lock().insert(number, end.clone());
        let program = self.clone();
        tokio::spawn(async move { end.run_until_cancelled(program.serve(number, theirs)).await });
        let whole =
            json!({ "capabilities": { "tools": {}, "logging": {}, "resources": { "subscribe": true } } });
        let read = Greeting::read(Revision::V2025_11_25, raw(whole));
        let greeting = Greeting { guessed: self.silent, ..read };
        let (link, events) = StreamLink::over(&"a".into(), split(ours), greeting, &Scope::new());
        Box::pin(async move { Ok(Connected { link: Arc::new(link), events }) })
    }
}

impl Program {
    async fn serve(self, number: usize, stream: DuplexStream) {
        let (read, mut write) = split(stream);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let result = match message["method"].as_str() {
                Some("tools/list") => {
                    json!({ "tools": [{ "name": "who", "inputSchema": { "type": "object" } }] })
                }
                Some("resources/list") => json!({ "resources": [{ "uri": "test://a", "name": "a" }] }),
                Some("resources/templates/list") => json!({ "resourceTemplates": [] }),
                Some("tools/call") if message["params"]["task"].is_object() => {
                    json!({ "task": { "taskId": "t1", "status": "working" } })
                }
                Some("tasks/get") => json!({ "taskId": "t1", "status": number.to_string() }),
                Some("tools/call") => json!({ "content": [{ "type": "text", "text": number.to_string() }] }),
                _ => json!({}),
            };
            self.seen.lock().push((number, message.clone()));
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            if write.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn gateway(&self, sharing: Sharing) -> Gateway {
        self.gateway_with(sharing, None)
    }

    fn gateway_with(&self, sharing: Sharing, state_dir: Option<PathBuf>) -> Gateway {
        let id = UpstreamId::parse("a").unwrap();
        let mut upstream = UpstreamPlan::new(id, UpstreamKind::Server, Arc::new(self.clone()));
        upstream.policy.timeouts = Timeouts { idle: Duration::from_secs(30), hard: Duration::from_mins(2) };
        upstream.sharing = sharing;
        Gateway::start(Plan { upstreams: vec![upstream], state_dir, ..Plan::default() }, &Scope::new())
    }

    fn kill(&self, number: usize) {
        self.running.lock().remove(&number).unwrap().cancel();
    }

    /// The connections that received this, and the parameter that matters.
    fn received(&self, method: &str, key: &str) -> Vec<(usize, String)> {
        let seen = self.seen.lock();
        let matching = seen.iter().filter(|(_, message)| message["method"] == method);
        matching
            .map(|(number, message)| (*number, message["params"][key].as_str().unwrap().to_owned()))
            .collect()
    }

    async fn until_received(&self, method: &str, key: &str, expected: &[(usize, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(number, text)| (*number, (*text).to_owned())).collect();
        for _ in 0..10_000 {
            if self.received(method, key) == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?} instead of {expected:?}", self.received(method, key));
    }
}

/// Watches the resource in the way of a client's session; ends with the handle.
fn watch(client: &Client) -> tokio::task::JoinHandle<()> {
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["test://a"] } });
    let listening = client.send("subscriptions/listen", wanted);
    tokio::spawn(async move { drop(listening.await) })
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_kept_when_only_the_clients_own_process_dies() {
    let program = Program::default();
    let gateway = program.gateway(Sharing::Client);
    let client = Client::new(&gateway, Revision::V2025_11_25, "a");
    client.tools().await;
    let watching = watch(&client);
    program.until_received("resources/subscribe", "uri", &[(1, "test://a")]).await;
    program.kill(1);
    program.until_received("resources/subscribe", "uri", &[(1, "test://a"), (2, "test://a")]).await;
    let who = client.call("who", json!({})).await.unwrap();
    assert_eq!(who["content"][0]["text"], "2", "it is the client's own again");
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_id_in_two_clients_own_processes_are_each_clients_own() {
    let program = Program::default();
    let gateway = program.gateway(Sharing::Client);
    let clients = [(); 2].map(|()| Client::new(&gateway, Revision::V2025_11_25, "a"));
    clients[0].tools().await;
    for client in &clients {
        let params = json!({ "name": "who", "arguments": {}, "task": { "ttl": 60_000 } });
        assert_eq!(client.ask("tools/call", params).await.unwrap()["task"]["taskId"], "t1");
    }
    let mut processes = Vec::new();
    for client in &clients {
        processes.push(client.ask("tasks/get", json!({ "taskId": "t1" })).await.unwrap()["status"].clone());
    }
    assert_eq!(processes, ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_kept_when_the_shared_process_dies() {
    let program = Program::default();
    let gateway = program.gateway(Sharing::Shared);
    let client = Client::new(&gateway, Revision::V2025_11_25, "a");
    client.tools().await;
    let watching = watch(&client);
    program.until_received("resources/subscribe", "uri", &[(0, "test://a")]).await;
    program.kill(0);
    program.until_received("resources/subscribe", "uri", &[(0, "test://a"), (1, "test://a")]).await;
    watching.abort();
}

/// What the program did before it was subscribed to again is unknown, so the client gets an update.
async fn check_update_after(sharing: Sharing, process: usize) {
    let program = Program::default();
    let gateway = program.gateway(sharing);
    let client = Client::new(&gateway, Revision::V2025_11_25, "a");
    client.tools().await;
    let watching = watch(&client);
    program.until_received("resources/subscribe", "uri", &[(process, "test://a")]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.inbox.methods(), ["notifications/subscriptions/acknowledged"]);
    program.kill(process);
    let again = [(process, "test://a"), (process + 1, "test://a")];
    program.until_received("resources/subscribe", "uri", &again).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let words = ["notifications/subscriptions/acknowledged", "notifications/resources/updated"];
    assert_eq!(client.inbox.methods(), words);
    let params = client.inbox.received.lock()[1].params.clone().unwrap();
    assert_eq!(params.as_str(), r#"{"uri":"test://a"}"#);
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn subscribed_clients_get_an_update_once_a_restarted_program_is_subscribed_to_again() {
    check_update_after(Sharing::Shared, 0).await;
    check_update_after(Sharing::Client, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_program_gets_the_log_level_again_before_any_call() {
    let program = Program::default();
    let gateway = program.gateway(Sharing::Shared);
    let (first, second) = (
        Client::new(&gateway, Revision::V2025_11_25, "a"),
        Client::new(&gateway, Revision::V2025_06_18, "a"),
    );
    first.tools().await;
    first.ask("logging/setLevel", json!({ "level": "warning" })).await.unwrap();
    second.ask("logging/setLevel", json!({ "level": "info" })).await.unwrap();
    program.until_received("logging/setLevel", "level", &[(0, "warning"), (0, "info")]).await;
    program.kill(0);
    let all = [(0, "warning"), (0, "info"), (1, "info")];
    program.until_received("logging/setLevel", "level", &all).await;
}

#[tokio::test(start_paused = true)]
async fn a_level_that_is_chosen_before_a_program_is_connected_reaches_it() {
    let program = Program::default();
    let gateway = program.gateway(Sharing::Shared);
    let client = Client::new(&gateway, Revision::V2025_11_25, "a");
    client.ask("logging/setLevel", json!({ "level": "info" })).await.unwrap();
    program.until_received("logging/setLevel", "level", &[(0, "info")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_program_for_which_no_client_chose_a_level_gets_none() {
    let program = Program::default();
    let gateway = program.gateway(Sharing::Shared);
    let client = Client::new(&gateway, Revision::V2025_11_25, "a");
    client.tools().await;
    program.kill(0);
    tokio::time::sleep(Duration::from_secs(5)).await;
    client.call("who", json!({})).await.unwrap();
    assert_eq!(program.received("logging/setLevel", "level"), []);
}

/// What is known of a program at its second and third start, the third after a restart of the gateway.
async fn known_later(silent: bool) -> [Option<Revision>; 2] {
    let program = Program { silent, ..Program::default() };
    let state = tempfile::tempdir().unwrap();
    let gateway = program.gateway_with(Sharing::Shared, Some(state.path().to_owned()));
    let client = Client::new(&gateway, Revision::NEWEST, "a");
    client.tools().await;
    program.kill(0);
    tokio::time::sleep(Duration::from_secs(5)).await;
    client.call("who", json!({})).await.unwrap();
    gateway.end().await;
    let gateway = program.gateway_with(Sharing::Shared, Some(state.path().to_owned()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    gateway.end().await;
    let known = program.known.lock().clone();
    assert_eq!((known.len(), known[0]), (3, None));
    [known[1], known[2]]
}

#[tokio::test(start_paused = true)]
async fn an_era_that_was_only_guessed_is_asked_for_again_and_a_known_one_is_not() {
    assert_eq!(known_later(true).await, [None, None]);
    assert_eq!(known_later(false).await, [Some(Revision::V2025_11_25); 2]);
}
