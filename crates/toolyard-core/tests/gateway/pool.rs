//! Upstreams that ask their clients: which client is asked, and which gets a connection of its own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, split};
use toolyard_core::{Connect, Connected, Gateway, Plan, Sharing, Timeouts, UpstreamKind, UpstreamPlan};
use toolyard_link::stream::StreamLink;
use toolyard_model::{Answer, Ask, AskError, Back, BoxFuture, Greeting, Handler as _, Peer, Request, Scope};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Method, Notification, Raw, Reason, Revision};

use crate::support::{Client, raw};

/// A program that many can connect to: `ask` asks its client, `look` does so and only reads, `hold` never answers,
/// `who` returns the number of the connection, `shout` logs something after its answer, `touch` changes the resource `a:1`.
#[derive(Clone, Default)]
struct Asking {
    connects: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    refusals: Arc<Mutex<Vec<String>>>,
    /// The connections on which the resource is watched.
    watching: Arc<Mutex<Vec<usize>>>,
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("asking")
    }
}

impl Connect for Asking {
    fn connect(&self, _: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let number = self.connects.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(self.clone().serve(number, theirs));
        let whole = json!({ "capabilities": { "tools": {}, "resources": { "subscribe": true } }, "serverInfo": { "name": "a", "version": "1" } });
        let greeting = Greeting::read(Revision::V2025_11_25, raw(whole));
        let (link, events) = StreamLink::over(&"a".into(), split(ours), greeting, &Scope::new());
        Box::pin(async move { Ok(Connected { link: Arc::new(link), events }) })
    }
}

impl Asking {
    async fn serve(self, number: usize, stream: DuplexStream) {
        self.open.fetch_add(1, Ordering::SeqCst);
        let (read, mut write) = split(stream);
        let mut lines = BufReader::new(read).lines();
        let mut asked = Vec::new();
        while let Ok(Some(line)) = lines.next_line().await {
            for out in self.answer(number, &line, &mut asked) {
                if write.write_all(format!("{out}\n").as_bytes()).await.is_err() {
                    break;
                }
            }
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    fn answer(&self, number: usize, line: &str, asked: &mut Vec<Value>) -> Vec<Value> {
        let message: Value = serde_json::from_str(line).unwrap();
        let text = |id: &Value, text: &str| json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": text }] } });
        match message["method"].as_str() {
            None => {
                let call = asked.remove(0);
                let reply = match message["error"]["message"].as_str() {
                    Some(why) => {
                        self.refusals.lock().push(why.to_owned());
                        return vec![json!({ "jsonrpc": "2.0", "id": call, "result": {
                            "content": [{ "type": "text", "text": "refused" }], "isError": true } })];
                    }
                    None => message["result"]["content"].to_string(),
                };
                vec![text(&call, &reply)]
            }
            Some("tools/list") => {
                let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
                let mut look = tool("look");
                look["annotations"] = json!({ "readOnlyHint": true });
                let tools = [tool("ask"), look, tool("hold"), tool("who"), tool("shout"), tool("touch")];
                vec![json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "tools": tools } })]
            }
            Some("tools/call") => match message["params"]["name"].as_str() {
                Some("ask" | "look") => {
                    asked.push(message["id"].clone());
                    let params = json!({ "message": "?", "requestedSchema": { "type": "object" } });
                    let id = asked.len();
                    vec![
                        json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params }),
                    ]
                }
                Some("touch") => {
                    let params = json!({ "uri": "a:1" });
                    let method = "notifications/resources/updated";
                    let update = json!({ "jsonrpc": "2.0", "method": method, "params": params });
                    let is_watched = self.watching.lock().contains(&number);
                    let sent = is_watched.then_some(update);
                    sent.into_iter().chain([text(&message["id"], "done")]).collect()
                }
                Some("shout") => {
                    let log = json!({ "level": "info", "data": "loud" });
                    let logged =
                        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": log });
                    vec![text(&message["id"], "done"), logged]
                }
                Some("who") => vec![text(&message["id"], &number.to_string())],
                _ => Vec::new(),
            },
            Some(method @ ("resources/subscribe" | "resources/unsubscribe")) => {
                let mut watching = self.watching.lock();
                watching.retain(|other| *other != number);
                watching.extend((method == "resources/subscribe").then_some(number));
                vec![json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} })]
            }
            Some("resources/list") => {
                let resources = [json!({ "uri": "a:1", "name": "one" })];
                vec![json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "resources": resources } })]
            }
            Some("resources/templates/list") => {
                vec![json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "resourceTemplates": [] } })]
            }
            Some(_) => Vec::new(),
        }
    }

    fn gateway(&self, sharing: Sharing) -> Gateway {
        Gateway::start(self.plan(sharing, Duration::from_secs(30)), &Scope::new())
    }

    fn plan(&self, sharing: Sharing, idle: Duration) -> Plan {
        let id = UpstreamId::parse("a").unwrap();
        let mut upstream = UpstreamPlan::new(id, UpstreamKind::Server, Arc::new(self.clone()));
        upstream.policy.timeouts = Timeouts { idle, hard: Duration::from_mins(2) };
        upstream.sharing = sharing;
        Plan { upstreams: vec![upstream], ..Plan::default() }
    }

    /// Until so many connections are open.
    async fn wait_open(&self, count: usize) {
        for _ in 0..10_000 {
            if self.open.load(Ordering::SeqCst) == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} connections are open, not {count}", self.open.load(Ordering::SeqCst));
    }
}

/// A client that answers questions with its name.
fn client(gateway: &Gateway, name: &str) -> Client {
    let mut client = Client::new(gateway, Revision::V2025_11_25, "a");
    client.declare(json!({ "elicitation": {} }));
    *client.inbox.reply.lock() = Some(json!({ "action": "accept", "content": name }));
    client
}

/// A request without a session, of a client that could answer.
fn alone(gateway: &Gateway) -> Client {
    let mut client = Client::alone(gateway, "a");
    client.declare(json!({ "elicitation": {} }));
    client
}

async fn text_of(client: &Client, tool: &str) -> String {
    let result = client.call(tool, json!({})).await.unwrap();
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Starts a call and waits until it is under way.
async fn start(client: &Client, tool: &str) -> tokio::task::JoinHandle<()> {
    let call = client.send("tools/call", json!({ "name": tool, "arguments": {} }));
    let running = tokio::spawn(async move { drop(call.await) });
    tokio::time::sleep(Duration::from_millis(50)).await;
    running
}

#[tokio::test(start_paused = true)]
async fn a_question_goes_to_the_one_client_that_is_calling() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Shared);
    let (first, second) = (client(&gateway, "first"), client(&gateway, "second"));
    first.tools().await;
    assert_eq!(text_of(&first, "ask").await, "\"first\"");
    assert_eq!(text_of(&second, "ask").await, "\"second\"");
    assert_eq!(asking.connects.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_may_be_for_two_clients_is_refused_and_from_then_on_each_has_its_own() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Shared);
    let (first, second) = (client(&gateway, "first"), client(&gateway, "second"));
    first.tools().await;
    let held = start(&first, "hold").await;
    assert_eq!(text_of(&second, "ask").await, "refused");
    let refusals = asking.refusals.lock().clone();
    assert!(refusals[0].contains("this request is for is unknown"), "{refusals:?}");
    assert_eq!(text_of(&second, "ask").await, "\"second\"");
    assert_eq!(text_of(&first, "ask").await, "\"first\"");
    assert_eq!((text_of(&second, "who").await, text_of(&first, "who").await), ("1".into(), "2".into()));
    held.abort();
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_the_call_of_another_client_to_end() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Shared);
    let (first, second) = (client(&gateway, "first"), client(&gateway, "second"));
    first.tools().await;
    let held = start(&first, "hold").await;
    let mut asked = Box::pin(text_of(&second, "ask"));
    assert!(tokio::time::timeout(Duration::from_secs(3), &mut asked).await.is_err());
    held.abort();
    assert_eq!(asked.await, "\"second\"");
    assert!(asking.refusals.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_only_reads_is_repeated_on_a_connection_of_its_own_if_its_question_was_refused() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Shared);
    let (first, second) = (client(&gateway, "first"), client(&gateway, "second"));
    first.tools().await;
    let held = start(&first, "hold").await;
    assert_eq!(text_of(&second, "look").await, "\"second\"");
    let refusals = asking.refusals.lock().len();
    assert_eq!((refusals, text_of(&second, "who").await), (1, "1".into()));
    held.abort();
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_watched_on_the_connection_that_its_client_gets_for_itself() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Shared);
    let (first, second) = (client(&gateway, "first"), client(&gateway, "second"));
    first.tools().await;
    let filter = json!({ "notifications": { "resourceSubscriptions": ["a:1"] } });
    let listening = tokio::spawn(first.send("subscriptions/listen", filter));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = start(&second, "hold").await;
    text_of(&first, "ask").await;
    held.abort();
    let updates = || first.inbox.methods().iter().filter(|method| method.contains("updated")).count();
    assert_eq!((text_of(&first, "touch").await, text_of(&first, "who").await), ("done".into(), "1".into()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((updates(), asking.watching.lock().clone()), (1, vec![0, 1]));
    // Another client's own connection is not subscribed.
    assert_eq!((text_of(&second, "touch").await, text_of(&second, "who").await), ("done".into(), "2".into()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(updates(), 1);
    listening.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*asking.watching.lock(), Vec::<usize>::new());
}

#[tokio::test(start_paused = true)]
async fn programs_that_share_a_token_are_never_asked_for_one_another() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Shared);
    let [first, second] = ["first", "second"].map(|name| {
        let mut client = Client::with_token(&gateway, "a");
        client.declare(json!({ "elicitation": {} }));
        *client.inbox.reply.lock() = Some(json!({ "action": "accept", "content": name }));
        client
    });
    first.tools().await;
    let held = start(&first, "hold").await;
    assert_eq!(text_of(&second, "ask").await, "refused");
    assert_eq!(text_of(&second, "ask").await, "\"second\"");
    let held_too = start(&first, "hold").await;
    assert_eq!(
        (text_of(&second, "ask").await, text_of(&first, "ask").await),
        ("\"second\"".into(), "\"first\"".into())
    );
    held.abort();
    held_too.abort();
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_session_leases_a_connection_and_another_may_have_it_afterwards() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Client);
    let (first, second) = (Client::alone(&gateway, "a"), Client::alone(&gateway, "a"));
    first.tools().await;
    assert_eq!(text_of(&first, "who").await, "1");
    assert_eq!(text_of(&second, "who").await, "1");
    let held = start(&first, "hold").await;
    assert_eq!(text_of(&second, "who").await, "2");
    // What was left in the middle of a call is not given to any other client.
    held.abort();
    asking.wait_open(2).await;
    assert_eq!(text_of(&second, "who").await, "2");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_promised_its_own_loses_it_when_it_goes() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Client);
    let (first, second) = (client(&gateway, "first"), client(&gateway, "second"));
    first.tools().await;
    assert_eq!((text_of(&first, "who").await, text_of(&second, "who").await), ("1".into(), "2".into()));
    assert_eq!(text_of(&first, "who").await, "1");
    gateway.ended(first.key());
    asking.wait_open(2).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(text_of(&second, "who").await, "2");
}

#[tokio::test(start_paused = true)]
async fn connections_of_their_own_are_bounded_and_end_when_idle() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Shared);
    let probe = client(&gateway, "probe");
    probe.tools().await;
    let held = start(&probe, "hold").await;
    text_of(&client(&gateway, "other"), "ask").await;
    held.abort();
    let alone: Vec<Client> = (0..17).map(|_| alone(&gateway)).collect();
    let mut running = Vec::new();
    for client in &alone[..16] {
        running.push(start(client, "hold").await);
    }
    // All are in use: the next one waits until one is free.
    let mut waiting = Box::pin(text_of(&alone[16], "who"));
    assert!(tokio::time::timeout(Duration::from_secs(5), &mut waiting).await.is_err());
    running.swap_remove(3).abort();
    assert_eq!(waiting.await, "17");
    for running in running {
        running.abort();
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    asking.wait_open(1).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_gateway_is_the_end_of_every_connection() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Client);
    let (first, second) = (client(&gateway, "first"), client(&gateway, "second"));
    first.tools().await;
    text_of(&first, "who").await;
    text_of(&second, "who").await;
    asking.wait_open(3).await;
    gateway.end().await;
    asking.wait_open(0).await;
}

/// A way back to a client that never answers.
struct Silent;

impl Back for Silent {
    fn notify(&self, _: Notification) {}

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn questions_that_are_never_answered_hold_four_connections_of_a_client_at_most() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Client);
    alone(&gateway).tools().await;
    for _ in 0..17 {
        let params = raw(json!({ "name": "ask", "arguments": {} }));
        let call = Request { params: params.into(), ..alone(&gateway).request("tools/call") };
        tokio::spawn(gateway.handle(call, Peer::new(Arc::new(Silent))));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let open = asking.open.load(Ordering::SeqCst);
    assert!(open <= 6, "the shared one, four with questions and one that is free again: {open}");
    let begun = tokio::time::Instant::now();
    text_of(&alone(&gateway), "who").await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// A call of `ask` whose client never answers.
fn left_open(gateway: &Gateway, caller: &Client) -> BoxFuture<Answer> {
    let params = raw(json!({ "name": "ask", "arguments": {} }));
    let call = Request { params: params.into(), ..caller.request("tools/call") };
    gateway.handle(call, Peer::new(Arc::new(Silent)))
}

#[tokio::test(start_paused = true)]
async fn open_questions_of_many_clients_leave_a_quarter_of_the_connections_to_other_calls() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Client);
    let callers: Vec<Client> = (0..16).map(|at| client(&gateway, &at.to_string())).collect();
    callers[0].tools().await;
    for caller in &callers[..12] {
        tokio::spawn(left_open(&gateway, caller));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(asking.refusals.lock().is_empty());
    let error = callers[12].call("ask", json!({})).await.unwrap()["_meta"]["dev.toolyard/error"].take();
    assert_eq!((&error["kind"], error["retryAfterMs"].is_u64()), (&json!("limit"), true), "{error}");
    assert_eq!(asking.refusals.lock().len(), 1);
    let begun = tokio::time::Instant::now();
    for caller in &callers[12..] {
        text_of(caller, "who").await;
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    // A client with a question of its own makes room for its next one.
    let own = tokio::spawn(left_open(&gateway, &callers[0]));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((asking.refusals.lock().len(), own.is_finished()), (1, false));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gets_no_connection_of_its_own_before_its_deadline_fails_with_a_limit() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Client);
    let callers: Vec<Client> = (0..17).map(|_| alone(&gateway)).collect();
    callers[0].tools().await;
    let mut running = Vec::new();
    for caller in &callers[..16] {
        running.push(start(caller, "hold").await);
    }
    gateway.reload(asking.plan(Sharing::Client, Duration::from_secs(5)));
    let answer = callers[16].call("who", json!({})).await.unwrap();
    let error = &answer["_meta"]["dev.toolyard/error"];
    assert_eq!(error["kind"], "limit", "{answer}");
    assert!(answer["content"][0]["text"].as_str().unwrap().contains("16 connections"), "{answer}");
    for call in running {
        call.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_can_answer_nothing_needs_no_connection_of_its_own() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Shared);
    let (first, second) = (client(&gateway, "first"), client(&gateway, "second"));
    first.tools().await;
    let held = start(&first, "hold").await;
    text_of(&second, "ask").await;
    held.abort();
    assert_eq!(text_of(&second, "who").await, "1");
    let plain = Client::new(&gateway, Revision::V2025_11_25, "a");
    assert_eq!(text_of(&plain, "who").await, "0");
}

/// A way back to a client that panics.
struct Breaking;

impl Back for Breaking {
    fn notify(&self, notification: Notification) {
        assert_ne!(notification.method, Method::LOG, "as the test wants it");
    }

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_over_a_message_of_a_clients_link_costs_that_link_and_freezes_nothing() {
    let asking = Asking::default();
    let gateway = asking.gateway(Sharing::Client);
    let (first, second) = (client(&gateway, "first"), client(&gateway, "second"));
    first.tools().await;
    assert_eq!((text_of(&first, "who").await, text_of(&second, "who").await), ("1".into(), "2".into()));
    let params = raw(json!({ "notifications": { "toolsListChanged": true } }));
    let listen = Request { params: params.into(), ..first.request("subscriptions/listen") };
    tokio::spawn(gateway.handle(listen, Peer::new(Arc::new(Breaking))));
    tokio::time::sleep(Duration::from_secs(1)).await;
    text_of(&first, "shout").await;
    asking.wait_open(2).await;
    assert_eq!((text_of(&first, "who").await, text_of(&second, "who").await), ("3".into(), "2".into()));
    // Idle connections still end.
    tokio::time::sleep(Duration::from_hours(2)).await;
    asking.wait_open(1).await;
}
