//! Upstreams that speak both eras, as servers made with the official SDKs do: questions, log messages and
//! subscriptions work in a legacy session only. Each client is served in its own era.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, split};
use toolyard_core::{Connect, Connected, Gateway, NoCounterpart, Plan, UpstreamKind, UpstreamPlan};
use toolyard_link::stream::StreamLink;
use toolyard_model::{BoxFuture, Greeting, Handler as _, Origin, Scope};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Reason, Revision};

use crate::support::{Client, raw};

const LEGACY: Revision = Revision::V2025_11_25;

/// A server program. Each process speaks the era in which it was greeted.
#[derive(Clone, Default)]
struct Dual {
    modern: Arc<AtomicUsize>,
    legacy: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    /// It refuses `initialize`.
    modern_only: Arc<AtomicBool>,
    /// The next legacy processes do not come up.
    failing: Arc<AtomicUsize>,
    /// Methods that each process received, with its era.
    seen: Arc<Mutex<Vec<(Revision, String)>>>,
    /// Whether a legacy process asks for the roots as soon as it is greeted, and what it was answered.
    wants_roots: Arc<AtomicBool>,
    roots: Arc<Mutex<Option<String>>>,
    /// Ends the legacy processes.
    kill: Arc<tokio::sync::Notify>,
}

impl fmt::Debug for Dual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dual")
    }
}

impl Connect for Dual {
    fn connect(&self, _: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        self.modern.fetch_add(1, Ordering::SeqCst);
        let connected = self.start(Revision::NEWEST);
        Box::pin(async { Ok(connected) })
    }

    fn connect_counterpart(&self, _: Option<&Origin>) -> BoxFuture<Result<Connected, NoCounterpart>> {
        if self.modern_only.load(Ordering::SeqCst) {
            return Box::pin(async { Err(NoCounterpart::OneEra("initialize: unknown method".into())) });
        }
        self.legacy.fetch_add(1, Ordering::SeqCst);
        let failing = self.failing.load(Ordering::SeqCst);
        if failing > 0 {
            self.failing.store(failing - 1, Ordering::SeqCst);
            return Box::pin(async { Err(NoCounterpart::Failed("no answer within 2 min".into())) });
        }
        let connected = self.start(LEGACY);
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(connected)
        })
    }
}

impl Dual {
    fn start(&self, revision: Revision) -> Connected {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(self.clone().serve(revision, theirs));
        let mut capabilities = json!({ "tools": {}, "resources": { "subscribe": true } });
        if revision == LEGACY {
            capabilities["logging"] = json!({});
        }
        let whole = json!({ "capabilities": capabilities, "serverInfo": { "name": "dual", "version": "1" } });
        let greeting = Greeting::read(revision, raw(whole));
        let (link, events) = StreamLink::over(&"a".into(), split(ours), greeting, &Scope::new());
        Connected { link: Arc::new(link), events }
    }

    async fn serve(self, revision: Revision, stream: DuplexStream) {
        self.open.fetch_add(1, Ordering::SeqCst);
        let (read, mut write) = split(stream);
        let mut lines = BufReader::new(read).lines();
        let mut asked = Vec::new();
        if revision == LEGACY && self.wants_roots.load(Ordering::SeqCst) {
            let ask = json!({ "jsonrpc": "2.0", "id": "roots", "method": "roots/list" });
            write.write_all(format!("{ask}\n").as_bytes()).await.unwrap();
        }
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line,
                () = self.kill.notified(), if revision == LEGACY => break,
            };
            let Ok(Some(line)) = line else { break };
            for out in self.answer(revision, &line, &mut asked) {
                if write.write_all(format!("{out}\n").as_bytes()).await.is_err() {
                    break;
                }
            }
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    fn answer(&self, revision: Revision, line: &str, asked: &mut Vec<Value>) -> Vec<Value> {
        let message: Value = serde_json::from_str(line).unwrap();
        let id = &message["id"];
        let text = |id: &Value, text: &str| json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": text }] } });
        if id == "roots" {
            *self.roots.lock() = message["result"]["roots"][0]["uri"].as_str().map(str::to_owned);
            return Vec::new();
        }
        let Some(method) = message["method"].as_str() else {
            return vec![text(&asked.remove(0), &message["result"]["content"].to_string())];
        };
        self.seen.lock().push((revision, method.to_owned()));
        let notify =
            |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
        match (method, message["params"]["name"].as_str()) {
            ("tools/list", _) => {
                let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
                let tools = [tool("ask"), tool("era"), tool("log"), tool("touch")];
                vec![json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": tools } })]
            }
            ("resources/list", _) => {
                let resources = [json!({ "uri": "test://r", "name": "r" })];
                vec![json!({ "jsonrpc": "2.0", "id": id, "result": { "resources": resources } })]
            }
            ("tools/call", Some("ask")) if revision == LEGACY => {
                asked.push(id.clone());
                let params = json!({ "message": "?", "requestedSchema": { "type": "object" } });
                vec![
                    json!({ "jsonrpc": "2.0", "id": asked.len(), "method": "elicitation/create", "params": params }),
                ]
            }
            ("tools/call", Some("ask")) => vec![text(id, "no back channel in this era")],
            ("tools/call", Some("log")) if revision == LEGACY => {
                let log = json!({ "level": "info", "data": "working" });
                vec![notify("notifications/message", log), text(id, "logged")]
            }
            ("tools/call", Some("touch")) => {
                vec![
                    notify("notifications/resources/updated", json!({ "uri": "test://r" })),
                    text(id, "touched"),
                ]
            }
            ("tools/call", _) => vec![text(id, revision.as_str())],
            ("resources/subscribe" | "logging/setLevel", _) => {
                vec![json!({ "jsonrpc": "2.0", "id": id, "result": {} })]
            }
            ("subscriptions/listen", _) => {
                let mut ack = message["params"].clone();
                ack["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
                vec![notify("notifications/subscriptions/acknowledged", ack)]
            }
            (_, _) if id.is_null() => Vec::new(),
            _ => {
                vec![json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "unknown" } })]
            }
        }
    }

    fn gateway(&self) -> Gateway {
        let id = UpstreamId::parse("a").unwrap();
        let upstream = UpstreamPlan::new(id, UpstreamKind::Server, Arc::new(self.clone()));
        Gateway::start(Plan { upstreams: vec![upstream], ..Plan::default() }, &Scope::new())
    }

    fn starts(&self) -> (usize, usize) {
        (self.modern.load(Ordering::SeqCst), self.legacy.load(Ordering::SeqCst))
    }

    fn was_sent(&self, revision: Revision, method: &str) -> bool {
        self.seen.lock().iter().any(|(era, seen)| *era == revision && seen == method)
    }
}

fn client(gateway: &Gateway, revision: Revision) -> Client {
    let mut client = Client::new(gateway, revision, "");
    client.declare(json!({ "elicitation": {} }));
    *client.inbox.reply.lock() = Some(json!({ "action": "accept", "content": "Ann" }));
    client
}

async fn text_of(client: &Client, tool: &str) -> String {
    let result = client.call(&format!("a__{tool}"), json!({})).await.unwrap();
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn each_client_is_served_in_its_own_era() {
    let dual = Dual::default();
    let gateway = dual.gateway();
    let (old, new) = (client(&gateway, LEGACY), client(&gateway, Revision::NEWEST));
    assert_eq!(old.tools().await, ["a__ask", "a__era", "a__log", "a__touch"]);
    assert_eq!(text_of(&new, "era").await, "2026-07-28");
    assert_eq!(dual.starts(), (1, 0), "a second process is not started before it is needed");
    let (one, two) = tokio::join!(text_of(&old, "era"), text_of(&old, "era"));
    assert_eq!((one.as_str(), two.as_str()), ("2025-11-25", "2025-11-25"));
    assert_eq!(text_of(&old, "ask").await, "\"Ann\"");
    assert_eq!(text_of(&new, "ask").await, "no back channel in this era");
    assert_eq!(dual.starts(), (1, 1));
    let upstream = gateway.upstreams().into_iter().find(|one| one.id().as_str() == "a").unwrap();
    assert_eq!(upstream.counterpart().unwrap().revision, LEGACY);
}

#[tokio::test(start_paused = true)]
async fn log_messages_levels_and_subscriptions_follow_the_link_of_the_client() {
    let dual = Dual::default();
    let gateway = dual.gateway();
    let (old, new) = (client(&gateway, LEGACY), client(&gateway, Revision::NEWEST));
    old.tools().await;
    old.ask("logging/setLevel", json!({ "level": "info" })).await.unwrap();
    assert_eq!(dual.starts(), (1, 0));
    assert_eq!(text_of(&old, "log").await, "logged");
    assert!(dual.was_sent(LEGACY, "logging/setLevel"), "the level is set when the process is started");
    assert_eq!(old.inbox.methods(), ["notifications/message"]);
    let filter = json!({ "notifications": { "resourceSubscriptions": ["yard+test://a/r"] } });
    let (listening, other) = (
        tokio::spawn(old.send("subscriptions/listen", filter.clone())),
        tokio::spawn(new.send("subscriptions/listen", filter)),
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(dual.was_sent(LEGACY, "resources/subscribe"));
    assert!(!dual.was_sent(Revision::NEWEST, "resources/subscribe"));
    old.inbox.received.lock().clear();
    new.inbox.received.lock().clear();
    text_of(&old, "touch").await;
    assert_eq!(old.inbox.methods(), ["notifications/resources/updated"]);
    assert!(new.inbox.methods().is_empty(), "that was the resource of the other process");
    listening.abort();
    other.abort();
}

#[tokio::test(start_paused = true)]
async fn the_second_process_is_stopped_when_its_clients_are_gone() {
    let dual = Dual::default();
    let gateway = dual.gateway();
    let old = client(&gateway, LEGACY);
    old.tools().await;
    text_of(&old, "era").await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(dual.open.load(Ordering::SeqCst), 2, "its client is still connected");
    gateway.ended(old.key());
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(dual.open.load(Ordering::SeqCst), 1);
    assert_eq!(text_of(&client(&gateway, LEGACY), "era").await, "2025-11-25");
    assert_eq!(dual.starts(), (1, 2));
    gateway.end().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(dual.open.load(Ordering::SeqCst), 0, "both processes end with the gateway");
}

#[tokio::test(start_paused = true)]
async fn a_lost_second_process_is_started_by_the_next_call() {
    let dual = Dual::default();
    let gateway = dual.gateway();
    let old = client(&gateway, LEGACY);
    old.tools().await;
    text_of(&old, "era").await;
    dual.kill.notify_waiters();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(text_of(&old, "era").await, "2025-11-25");
    assert_eq!(dual.starts(), (1, 2), "the process that lists come from is not concerned");
}

#[tokio::test(start_paused = true)]
async fn calls_are_converted_where_a_server_speaks_one_era_only() {
    let dual = Dual::default();
    dual.modern_only.store(true, Ordering::SeqCst);
    let gateway = dual.gateway();
    let old = client(&gateway, LEGACY);
    old.tools().await;
    assert_eq!(text_of(&old, "era").await, "2026-07-28");
    let upstream = gateway.upstreams().into_iter().find(|one| one.id().as_str() == "a").unwrap();
    assert_eq!(upstream.counterpart_refusal().unwrap().to_string(), "initialize: unknown method");
}

#[tokio::test(start_paused = true)]
async fn a_slow_start_of_the_second_process_does_not_change_the_era() {
    let dual = Dual::default();
    dual.failing.store(1, Ordering::SeqCst);
    let gateway = dual.gateway();
    let old = client(&gateway, LEGACY);
    old.tools().await;
    let failed = old.call("a__era", json!({})).await.unwrap();
    assert_eq!(failed["_meta"]["dev.toolyard/error"]["kind"], "unavailable", "{failed}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(text_of(&old, "era").await, "2025-11-25");
}

#[tokio::test(start_paused = true)]
async fn a_view_of_the_server_alone_declares_what_it_declares_in_the_era_of_the_client() {
    let dual = Dual::default();
    let gateway = dual.gateway();
    let (old, new) = (Client::new(&gateway, LEGACY, "a"), Client::new(&gateway, Revision::NEWEST, "a"));
    new.tools().await;
    let greeting = old.ask("server/discover", json!({})).await.unwrap();
    assert!(greeting["capabilities"]["logging"].is_object(), "{greeting}");
    let greeting = new.ask("server/discover", json!({})).await.unwrap();
    assert!(greeting["capabilities"]["logging"].is_null(), "{greeting}");
}

#[tokio::test(start_paused = true)]
async fn the_client_whose_call_starts_a_process_is_asked_for_the_roots() {
    let dual = Dual::default();
    dual.wants_roots.store(true, Ordering::SeqCst);
    let gateway = dual.gateway();
    let mut old = Client::new(&gateway, LEGACY, "");
    old.declare(json!({ "roots": {} }));
    *old.inbox.reply.lock() = Some(json!({ "roots": [{ "uri": "file:///home/you" }] }));
    old.tools().await;
    text_of(&old, "era").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(dual.roots.lock().as_deref(), Some("file:///home/you"));
}
