//! Calls of models in virtual time: a script is in the place of the network.

mod agentic;
mod agents;
mod cancelled;
mod limits;
mod order;
mod parameters;
mod privacy;
mod waiting;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use toolyard_tool::host::{
    Credentials, FoldersIn, Hooks, Limited, LimitedWork, Limits, NotSignedIn, Permit, Verdict,
};
use toolyard_tool::{Context, Host, ToolError};

use crate::config::Config;
use crate::http::{Incoming, Outgoing, Wire};
use crate::models::{AgentContext, Answered, Invocation, Models};
use crate::progress::Progress;
use crate::tools::gemini::Gemini;
use crate::trouble::Trouble;

/// A request that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) at: Duration,
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Value,
}

impl Sent {
    pub(super) fn key(&self) -> &str {
        let is_key = |name: &str| ["x-goog-api-key", "authorization", "x-api-key"].contains(&name);
        self.headers.iter().find(|(name, _)| is_key(name)).map_or("", |(_, value)| value)
    }
}

/// What a provider does with a request.
#[derive(Clone, Debug)]
pub(super) enum Does {
    /// A status with an error.
    Fail(u16),
    /// A stream of these events.
    Stream(Vec<Value>),
    /// The same, cut off at the end.
    Cut(Vec<Value>),
    /// The same, without an end.
    Hang(Vec<Value>),
    /// An answer of Gemini after a while.
    Say(&'static str, Duration),
    Unreachable,
}

pub(super) fn say(text: &'static str) -> Does {
    Does::Say(text, Duration::ZERO)
}

/// The script, and what was sent.
pub(super) struct Script {
    begun: Instant,
    steps: Mutex<VecDeque<Does>>,
    /// After the script has ended.
    last: Does,
    pub(super) sent: Mutex<Vec<Sent>>,
    running: AtomicUsize,
    pub(super) most_running: AtomicUsize,
}

impl Script {
    pub(super) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().clone()
    }
}

pub(super) fn gemini_events(text: &str) -> Vec<Value> {
    vec![json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] }, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 100, "candidatesTokenCount": 20, "thoughtsTokenCount": 5 },
    })]
}

struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Wire for Script {
    fn post(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Incoming, Trouble>> {
        Box::pin(async move {
            let headers =
                outgoing.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
            self.sent.lock().push(Sent {
                at: self.begun.elapsed(),
                url: outgoing.url,
                headers: headers.collect(),
                body: serde_json::from_slice(&outgoing.body).unwrap(),
            });
            let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_running.fetch_max(now, Ordering::SeqCst);
            let _running = Running(&self.running);
            let does = self.steps.lock().pop_front().unwrap_or_else(|| self.last.clone());
            let is_endless = matches!(does, Does::Hang(_));
            let (status, events, is_cut) = match does {
                Does::Unreachable => return Err(Trouble::Unreachable("no route".into())),
                Does::Fail(status) => {
                    let body = json!({ "error": { "message": format!("status {status}") } }).to_string();
                    let chunks = stream::iter([Ok(Bytes::from(body))]).boxed();
                    return Ok(Incoming { status, retry_after: None, chunks });
                }
                Does::Stream(events) | Does::Hang(events) => (200, events, false),
                Does::Cut(events) => (200, events, true),
                Does::Say(text, after) => {
                    sleep(after).await;
                    (200, gemini_events(text), false)
                }
            };
            let mut chunks: Vec<Result<Bytes, String>> =
                events.iter().map(|event| Ok(Bytes::from(format!("data: {event}\n\n")))).collect();
            if is_cut {
                chunks.push(Err("reset".into()));
            }
            let chunks = stream::iter(chunks);
            let chunks = if is_endless { chunks.chain(stream::pending()).boxed() } else { chunks.boxed() };
            Ok(Incoming { status, retry_after: None, chunks })
        })
    }
}

/// Hooks that a test writes as a function.
type Hook = dyn Fn(&str, Value) -> Verdict + Send + Sync;

struct TestHooks(Arc<Hook>);

impl Hooks for TestHooks {
    fn run(
        &self,
        point: &str,
        input: Value,
    ) -> std::pin::Pin<Box<dyn Future<Output = Verdict> + Send + 'static>> {
        let verdict = (self.0)(point, input);
        Box::pin(async move { verdict })
    }
}

/// A login that is always there, and how often it was used.
#[derive(Default)]
pub(super) struct Login(AtomicUsize);

impl Login {
    pub(super) fn uses(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Credentials for Login {
    fn token(
        &self,
        provider: &str,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<String, NotSignedIn>> + Send + 'static>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let known = (provider == "google").then(|| "login-token".to_owned());
        let missing = NotSignedIn::new(provider);
        Box::pin(async move { known.ok_or(missing) })
    }
}

/// Limits of the gateway: `gentle` has one place, and `closed` has none.
pub(super) struct SharedLimits {
    gentle: Arc<Semaphore>,
    pub(super) acquired: Mutex<Vec<(String, String)>>,
}

impl Limits for SharedLimits {
    fn acquire(
        &self,
        name: &str,
        work: LimitedWork,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Permit, Limited>> + Send + 'static>> {
        assert!(work.call.is_some(), "the request is for a call");
        self.acquired.lock().push((name.to_owned(), work.model.to_string()));
        let (gentle, is_closed) = (self.gentle.clone(), name == "closed");
        Box::pin(async move {
            if is_closed {
                return Err(Limited::new("closed", "16 calls are waiting already", Duration::from_secs(7)));
            }
            Ok(Permit::new(gentle.acquire_owned().await.unwrap()))
        })
    }
}

pub(super) struct Bench {
    pub(super) models: Arc<Models>,
    pub(super) script: Arc<Script>,
    pub(super) login: Arc<Login>,
    pub(super) limits: Arc<SharedLimits>,
    pub(super) folder: TempDir,
}

#[expect(clippy::needless_pass_by_value, reason = "written with `json!`")]
pub(super) fn config(keys: Value) -> Value {
    let mut config = json!({
        "providers": {
            "google": {
                "kind": "gemini",
                "login": "google",
                "key": "secret-key",
                "models": {
                    "gemini-3-flash": { "price_in": 1.0, "price_out": 10.0, "priced": "2026-11-18" },
                    "gemini-3-pro-high": {},
                },
            },
            "spare": { "kind": "compatible", "base_url": "http://spare/v1", "models": { "spare-model": {} } },
        },
    });
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

impl Bench {
    pub(super) fn new(steps: impl IntoIterator<Item = Does>) -> Self {
        Self::with(config(json!({})), steps, |_, input| Verdict::Continue(input))
    }

    pub(super) fn with(
        config: Value,
        steps: impl IntoIterator<Item = Does>,
        hook: impl Fn(&str, Value) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        assert_eq!(crate::pack().check(&config), []);
        let config: Config = serde_json::from_value(config).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let login = Arc::<Login>::default();
        let limits =
            Arc::new(SharedLimits { gentle: Arc::new(Semaphore::new(1)), acquired: Mutex::default() });
        let host = Host::builder("models")
            .folders(Arc::new(FoldersIn::new(folder.path().join("state"), folder.path().join("cache"))))
            .hooks(Arc::new(TestHooks(Arc::new(hook))))
            .credentials(login.clone())
            .limits(limits.clone())
            .build();
        let script = Arc::new(Script {
            begun: Instant::now(),
            steps: Mutex::new(steps.into_iter().collect()),
            last: say("the last answer"),
            sent: Mutex::default(),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
        });
        let models = Arc::new(Models::new(config, host, script.clone()).unwrap());
        Self { models, script, login, limits, folder }
    }

    pub(super) async fn ask(&self, invocation: Invocation) -> Result<Answered, ToolError> {
        self.models.ask(invocation, &Progress::new(&Context::detached())).await
    }
}

/// `invoke_gemini` with these arguments.
#[expect(clippy::needless_pass_by_value, reason = "written with `json!`")]
pub(super) fn gemini(arguments: Value) -> Invocation {
    let mut all = json!({ "prompt": "the secret prompt" });
    for (key, value) in arguments.as_object().unwrap() {
        all[key] = value.clone();
    }
    serde_json::from_value::<Gemini>(all).unwrap().invocation("ann")
}

pub(super) fn explore() -> AgentContext {
    AgentContext {
        agent_type: Some("explore".into()),
        task_id: Some("t-1".into()),
        description: Some("Find authentication code".into()),
        session_id: Some("s-1".into()),
    }
}
