//! A client of one revision. It insists on the forms of its revision: what it should never see is an error.

mod forms;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use toolyard_model::Scope;
use toolyard_proto::Revision;

pub use wire::Wire;

use super::{CAPABILITIES, TASKS, VERSION};

/// Nothing that is tested with this takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    revision: Revision,
    wire: Wire,
    scope: Scope,
    next: AtomicU64,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u64, oneshot::Sender<Value>>,
    received: Vec<Value>,
    /// What it should never have seen.
    wrong: Vec<String>,
}

impl Client {
    /// Connects, and shakes hands where its revision does.
    pub async fn connect(wire: Wire, revision: Revision, scope: &Scope) -> Result<Self, String> {
        let shared = Arc::new(Shared {
            revision,
            wire,
            scope: scope.child(),
            next: AtomicU64::new(1),
            state: Mutex::default(),
            news: Notify::new(),
        });
        let client = Self { shared };
        wire::start(&client)?;
        if !revision.is_modern() {
            let params = json!({
                "protocolVersion": revision.as_str(), "capabilities": client.capabilities(),
                "clientInfo": { "name": "script", "version": "1" },
            });
            let answer = client.ask("initialize", params).await.map_err(|error| error.to_string())?;
            if answer["protocolVersion"] != revision.as_str() {
                return Err(format!("the handshake was answered with {answer}"));
            }
            client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
            wire::listen(&client).await?;
        }
        Ok(client)
    }

    pub fn revision(&self) -> Revision {
        self.shared.revision
    }

    fn capabilities(&self) -> Value {
        let mut all = json!({ "roots": {}, "sampling": {} });
        if self.shared.revision >= Revision::V2025_06_18 {
            all["elicitation"] = json!({});
        }
        if self.shared.revision >= Revision::V2025_11_25 {
            all["elicitation"] = json!({ "form": {}, "url": {} });
        }
        if self.shared.revision.is_modern() {
            all["extensions"] = json!({ TASKS: {} });
        }
        all
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }

    async fn send(&self, message: Value) -> Result<(), String> {
        self.shared.wire.send(self, message).await
    }

    /// Sends a request and waits for its final result, answering whatever it is asked on the way.
    pub async fn ask(&self, method: &str, params: Value) -> Result<Value, Value> {
        self.ask_with(method, params, json!({})).await
    }

    /// The same with something in `_meta`.
    pub async fn ask_with(&self, method: &str, params: Value, meta: Value) -> Result<Value, Value> {
        let mut params = params;
        loop {
            let result = self.begin(method, params.clone(), meta.clone()).await?.answer(self).await?;
            forms::check_result(self.shared.revision, method, &result)?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            let requests = result["inputRequests"].as_object().cloned().unwrap_or_default();
            let answers = requests.iter().map(|(key, request)| {
                forms::check_ask(self.shared.revision, request)?;
                Ok((key.clone(), forms::answer_to(request)))
            });
            params["inputResponses"] = Value::Object(answers.collect::<Result<_, Value>>()?);
            if let Some(state) = result.get("requestState") {
                params["requestState"] = state.clone();
            }
        }
    }

    /// Sends a request; its answer may be waited for, or not.
    pub async fn begin(&self, method: &str, mut params: Value, meta: Value) -> Result<Begun, Value> {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let mut meta = meta;
        if self.shared.revision.is_modern() {
            meta[VERSION] = json!(self.shared.revision.as_str());
            meta[CAPABILITIES] = self.capabilities();
        }
        if meta.as_object().is_some_and(|meta| !meta.is_empty()) {
            params["_meta"] = meta;
        }
        let (sender, receiver) = oneshot::channel();
        self.state().waiting.insert(id, sender);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(request).await.map_err(Value::from)?;
        Ok(Begun { id, receiver })
    }

    /// Takes a call back in the way of its revision and transport.
    pub async fn cancel(&self, begun: Begun) -> Result<(), String> {
        self.state().waiting.remove(&begun.id);
        if self.shared.wire.hang_up(begun.id, self.shared.revision) {
            return Ok(());
        }
        let params = json!({ "requestId": begun.id });
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await
    }

    /// Calls a tool and gives the text that it answers with.
    pub async fn tool(&self, name: &str) -> Result<String, String> {
        let result = self.ask("tools/call", json!({ "name": name, "arguments": {} })).await;
        let result = result.map_err(|error| error.to_string())?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        if result["isError"] == true { Err(text) } else { Ok(text) }
    }

    /// Waits for a notification that fits, taking it out.
    pub async fn receive(&self, method: &str, fits: impl Fn(&Value) -> bool) -> Result<Value, String> {
        let waiting = async {
            loop {
                let news = self.shared.news.notified();
                let found = {
                    let mut state = self.state();
                    let at =
                        state.received.iter().position(|one| one["method"] == method && fits(&one["params"]));
                    at.map(|at| state.received.remove(at))
                };
                match found {
                    Some(found) => return found["params"].clone(),
                    None => news.await,
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, waiting).await;
        found.map_err(|_| format!("{method} was not received; received: {:?}", self.state().received))
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str) -> Result<(), String> {
        self.send(json!({ "jsonrpc": "2.0", "method": method })).await
    }

    /// The notifications of a kind that it has received so far and that were not awaited.
    pub fn received(&self, method: &str) -> Vec<Value> {
        let state = self.state();
        state.received.iter().filter(|one| one["method"] == method).map(|one| one["params"].clone()).collect()
    }

    /// What it should never have seen, so far.
    pub fn wrong(&self) -> Vec<String> {
        self.state().wrong.clone()
    }

    /// One message from the other side.
    fn take(&self, message: &Value) {
        let id = message["id"].as_u64();
        match (message["method"].as_str(), id) {
            (None, Some(id)) => {
                let waiting = self.state().waiting.remove(&id);
                if let Some(waiting) = waiting {
                    let _ = waiting.send(message.clone());
                }
            }
            (Some(method), Some(id)) => self.asked(method, id, message),
            _ => {
                self.state().received.push(message.clone());
                self.shared.news.notify_waiters();
            }
        }
    }

    fn asked(&self, method: &str, id: u64, message: &Value) {
        if let Err(problem) = forms::check_ask(self.shared.revision, message) {
            self.state().wrong.push(problem.to_string());
        }
        if self.shared.revision.is_modern() {
            self.state().wrong.push(format!("a modern client was sent the request {method}"));
        }
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": forms::answer_to(message) });
        let client = self.clone();
        self.shared.scope.spawn(async move {
            let _ = client.send(answer).await;
        });
    }
}

/// A request under way.
#[derive(Debug)]
pub struct Begun {
    id: u64,
    receiver: oneshot::Receiver<Value>,
}

impl Begun {
    /// Waits for the answer, a bounded time.
    pub async fn answer(self, client: &Client) -> Result<Value, Value> {
        let answer = tokio::time::timeout(PATIENCE, self.receiver).await;
        let answer =
            answer.map_err(|_| json!("no answer in time"))?.map_err(|_| json!("no answer at all"))?;
        client.state().waiting.remove(&self.id);
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(answer["error"].clone()),
        }
    }
}
