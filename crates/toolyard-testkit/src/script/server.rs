//! A server of one revision, message by message. It refuses everything that is not of its revision, so that a sender
//! of such messages is detected.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolyard_model::Scope;
use toolyard_proto::Revision;

use super::task::Tasks;
use super::{CAPABILITIES, SUBSCRIPTION, TASKS, VERSION, tools};

/// Where messages go: the pipe, or the response to one POST.
pub(super) type Out = mpsc::Sender<Value>;

/// Page size of `tools/list`.
const PAGE: usize = 4;

#[derive(Debug)]
pub struct Server {
    pub(super) revision: Revision,
    pub(super) manner: Manner,
    pub(super) state: Mutex<State>,
    scope: Scope,
}

/// What a server leaves out of what its revision allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    #[default]
    Full,
    /// It has tools and nothing else.
    ToolsOnly,
    /// It answers GET with 405.
    WithoutStream,
}

#[derive(Debug, Default)]
pub(super) struct State {
    next: u64,
    pub(super) asks: HashMap<u64, oneshot::Sender<Value>>,
    /// By session and id.
    running: HashMap<String, CancellationToken>,
    pub(super) open: usize,
    pub(super) cancelled: usize,
    pub(super) level: Option<String>,
    subscribed: HashSet<String>,
    listens: Vec<Listen>,
    outside: Vec<Out>,
    pub(super) extra_tools: usize,
    pub(super) tasks: Tasks,
    /// How often each tool was called.
    pub(super) called: HashMap<String, usize>,
    /// The notifications that came.
    pub(super) noticed: Vec<String>,
    /// What it was answered to its questions.
    pub(super) answers: Vec<Value>,
    /// Sessions over HTTP that are open, and how many there were.
    pub(super) sessions: HashSet<String>,
    pub(super) sessions_made: usize,
}

#[derive(Debug)]
struct Listen {
    id: Value,
    out: Out,
    wanted: Value,
}

/// One request on its way.
pub(super) struct Call {
    pub(super) server: Arc<Server>,
    pub(super) params: Value,
    pub(super) out: Out,
    id: Value,
    key: String,
}

impl Server {
    pub fn new(revision: Revision, scope: &Scope) -> Arc<Self> {
        Self::with(revision, Manner::Full, scope)
    }

    pub fn with(revision: Revision, manner: Manner, scope: &Scope) -> Arc<Self> {
        Arc::new(Self { revision, manner, state: Mutex::default(), scope: scope.clone() })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn is_modern(&self) -> bool {
        self.revision.is_modern()
    }

    pub(super) fn knows(&self, since: Revision) -> bool {
        self.revision >= since
    }

    /// Messages outside of calls go here.
    pub(super) fn add_outside(&self, out: Out) {
        self.state().outside.push(out);
    }

    /// What a client that opens no session is called.
    pub(super) fn name_a_stream(&self) -> String {
        let mut state = self.state();
        state.next += 1;
        format!("stream {}", state.next)
    }

    /// Takes one message of a session; what it leads to goes to `out`.
    pub(super) fn take(self: &Arc<Self>, session: &str, message: Value, out: Out) {
        let Some(method) = message["method"].as_str().map(str::to_owned) else {
            let waiting = message["id"].as_u64().and_then(|id| self.state().asks.remove(&id));
            if let Some(waiting) = waiting {
                let _ = waiting.send(message);
            }
            return;
        };
        if message.get("id").is_none() {
            self.state().noticed.push(method.clone());
            if method == "notifications/cancelled"
                && let Some(running) =
                    self.state().running.get(&key(session, &message["params"]["requestId"]))
            {
                running.cancel();
            }
            return;
        }
        let (id, params) = (message["id"].clone(), message["params"].clone());
        let call = Call { server: self.clone(), params, out, key: key(session, &id), id };
        self.scope.spawn(async move { call.run(&method).await });
    }

    /// Asks the client, in the way of revisions that could.
    pub(super) async fn put(&self, out: &Out, method: &str, params: Value) -> Result<Value, Value> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut state = self.state();
            state.next += 1;
            let id = state.next;
            state.asks.insert(id, sender);
            id
        };
        let _ = out.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let answer = answer.await.unwrap_or_default();
        self.state().answers.push(answer.get("result").or(answer.get("error")).cloned().unwrap_or_default());
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(answer["error"].clone()),
        }
    }

    /// Announces a change to those that subscribed to it.
    pub(super) async fn announce(&self, method: &str, wanted: &str, params: Value) {
        let targets: Vec<(Out, Option<Value>)> = {
            let mut state = self.state();
            state.outside.retain(|out| !out.is_closed());
            let listens = state.listens.iter().filter(|listen| {
                listen.wanted[wanted] == true
                    || listen.wanted[wanted].as_array().is_some_and(|uris| uris.contains(&params["uri"]))
            });
            let listens = listens.map(|listen| (listen.out.clone(), Some(listen.id.clone())));
            if self.is_modern() {
                listens.collect()
            } else {
                state.outside.iter().map(|out| (out.clone(), None)).collect()
            }
        };
        for (out, subscription) in targets {
            let mut params = params.clone();
            if let Some(id) = subscription {
                params["_meta"] = json!({ SUBSCRIPTION: id });
            }
            let _ = out.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
        }
    }

    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        self.is_modern() || self.state().subscribed.contains(uri)
    }

    fn capabilities(&self) -> Value {
        if self.manner == Manner::ToolsOnly {
            return json!({ "tools": { "listChanged": true } });
        }
        let mut all = json!({
            "tools": { "listChanged": true }, "prompts": { "listChanged": true }, "logging": {},
            "resources": { "subscribe": true, "listChanged": true },
        });
        if self.knows(Revision::V2025_03_26) {
            all["completions"] = json!({});
        }
        if self.revision == Revision::V2025_11_25 {
            all["tasks"] = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
        }
        if self.is_modern() {
            all["extensions"] = json!({ TASKS: {} });
        }
        all
    }
}

fn key(session: &str, id: &Value) -> String {
    format!("{session} {id}")
}

pub(super) fn error(code: i32, message: &str) -> Value {
    json!({ "code": code, "message": message })
}

impl Call {
    async fn run(self, method: &str) {
        let token = CancellationToken::new();
        {
            let mut state = self.server.state();
            state.open += 1;
            state.running.insert(self.key.clone(), token.clone());
        }
        let gone = async {
            if self.server.is_modern() {
                self.out.closed().await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let outcome = tokio::select! {
            outcome = self.handle(method) => Some(outcome),
            () = token.cancelled() => None,
            () = gone => None,
        };
        self.over(outcome.is_none() && method == "tools/call");
        let answer = match outcome {
            Some(Ok(result)) => json!({ "jsonrpc": "2.0", "id": self.id, "result": result }),
            Some(Err(error)) => json!({ "jsonrpc": "2.0", "id": self.id, "error": error }),
            None => return,
        };
        let _ = self.out.send(answer).await;
    }

    fn over(&self, was_cancelled: bool) {
        let mut state = self.server.state();
        state.open -= 1;
        state.running.remove(&self.key);
        state.listens.retain(|listen| listen.id != self.id);
        state.cancelled += usize::from(was_cancelled);
    }

    async fn handle(&self, method: &str) -> Result<Value, Value> {
        let claim = self.params["_meta"].get(VERSION);
        let result = if self.server.is_modern() {
            if claim != Some(&json!(self.server.revision.as_str())) {
                let data = json!({ "supported": [self.server.revision.as_str()] });
                return Err(json!({ "code": -32022, "message": "another version", "data": data }));
            }
            let mut result = self.handle_modern(method).await?;
            result.as_object_mut().map(|result| result.entry("resultType").or_insert(json!("complete")));
            result
        } else {
            if claim.is_some() || self.params.get("inputResponses").is_some() {
                return Err(error(-32601, "not of this revision"));
            }
            self.handle_legacy(method).await?
        };
        Ok(result)
    }

    async fn handle_modern(&self, method: &str) -> Result<Value, Value> {
        match method {
            "server/discover" => {
                let info = json!({ "name": "script", "version": "1" });
                Ok(json!({
                    "supportedVersions": [self.server.revision.as_str()], "capabilities": self.server.capabilities(),
                    "ttlMs": 0, "cacheScope": "private", "_meta": { "io.modelcontextprotocol/serverInfo": info },
                }))
            }
            "subscriptions/listen" => self.listen().await,
            "tasks/get" | "tasks/update" | "tasks/cancel" => self.server.tasks_today(method, &self.params),
            _ => self.handle_common(method).await,
        }
    }

    async fn listen(&self) -> Result<Value, Value> {
        let wanted = self.params["notifications"].clone();
        let (id, out) = (self.id.clone(), self.out.clone());
        self.server.state().listens.push(Listen { id: id.clone(), out, wanted: wanted.clone() });
        let params = json!({ "notifications": wanted, "_meta": { SUBSCRIPTION: id } });
        let method = "notifications/subscriptions/acknowledged";
        let _ = self.out.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
        std::future::pending().await
    }

    async fn handle_legacy(&self, method: &str) -> Result<Value, Value> {
        let is_of_tools = ["initialize", "ping", "tools/list", "tools/call"].contains(&method);
        match method {
            _ if self.server.manner == Manner::ToolsOnly && !is_of_tools => {
                Err(error(-32601, "method not found"))
            }
            "initialize" => Ok(json!({
                "protocolVersion": self.server.revision.as_str(), "capabilities": self.server.capabilities(),
                "serverInfo": { "name": "script", "version": "1" },
            })),
            "ping" => Ok(json!({})),
            "logging/setLevel" => {
                self.server.state().level = self.params["level"].as_str().map(str::to_owned);
                Ok(json!({}))
            }
            "resources/subscribe" => {
                let uri = self.params["uri"].as_str().unwrap_or_default().to_owned();
                self.server.state().subscribed.insert(uri);
                Ok(json!({}))
            }
            "resources/unsubscribe" => {
                self.server.state().subscribed.remove(self.params["uri"].as_str().unwrap_or_default());
                Ok(json!({}))
            }
            "tasks/get" | "tasks/result" | "tasks/cancel" if self.server.knows(Revision::V2025_11_25) => {
                self.tasks_before(method).await
            }
            _ => self.handle_common(method).await,
        }
    }

    async fn handle_common(&self, method: &str) -> Result<Value, Value> {
        match method {
            "tools/list" => Ok(self.page(&tools::list(&self.server))),
            "tools/call" => tools::call(self).await,
            "resources/list" => Ok(self.cached(json!({ "resources": [{ "uri": "test://a", "name": "a" }] }))),
            "resources/templates/list" => Ok(self.cached(json!({ "resourceTemplates": [] }))),
            "resources/read" => Ok(self.cached(json!({ "contents": [{ "uri": "test://a", "text": "A" }] }))),
            "prompts/list" => Ok(self.cached(json!({ "prompts": [{ "name": "p", "title": "P" }] }))),
            "completion/complete" => {
                if self.params.get("context").is_some() && !self.server.knows(Revision::V2025_06_18) {
                    return Err(error(-32602, "`context` is not of this revision"));
                }
                Ok(json!({ "completion": { "values": ["paris", "prague"], "hasMore": false } }))
            }
            _ => Err(error(-32601, "method not found")),
        }
    }

    fn cached(&self, mut result: Value) -> Value {
        if self.server.is_modern() {
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        result
    }

    fn page(&self, tools: &[Value]) -> Value {
        let from = self.params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let page: Vec<Value> = tools.iter().skip(from).take(PAGE).cloned().collect();
        let mut result = json!({ "tools": page });
        if from + PAGE < tools.len() {
            result["nextCursor"] = json!((from + PAGE).to_string());
        }
        self.cached(result)
    }

    pub(super) async fn notify(&self, method: &str, params: Value) {
        let _ = self.out.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// What the client of this very request can do; older revisions do not say it here.
    pub(super) fn declares(&self, path: &[&str]) -> bool {
        let mut at = &self.params["_meta"][CAPABILITIES];
        for key in path {
            at = &at[*key];
        }
        !at.is_null()
    }
}
