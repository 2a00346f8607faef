//! Upstreams that do as the test wants, and clients that call the gateway without any transport.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use toolyard_core::{
    AfterLoss, BegunSignIn, Connect, Connected, Gateway, Plan, Timeouts, UpstreamKind, UpstreamPlan,
};
use toolyard_model::{
    Answer, AnswerBody, Ask, AskError, Back, BoxFuture, ClientKey, Greeting, Handler, Link, LinkEvent,
    LinkRequest, Origin, Peer, Principal, Request, Scope, View,
};
use toolyard_proto::modern::LogLevel;
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{CallError, Id, Method, Notification, Params, Raw, Reason, Revision};

pub(crate) fn raw(value: Value) -> Raw {
    value.into()
}

/// What a scripted upstream does with one request.
pub(crate) type Behaviour = Arc<dyn Fn(LinkRequest, Peer) -> BoxFuture<Answer> + Send + Sync>;

/// A scripted upstream: shared by the connector, its links and the test.
pub(crate) struct Double {
    pub(crate) revision: Revision,
    pub(crate) fingerprint: String,
    pub(crate) tools: Mutex<Vec<Value>>,
    pub(crate) resources: Mutex<Vec<Value>>,
    pub(crate) prompts: Mutex<Vec<Value>>,
    pub(crate) behaviour: Behaviour,
    /// Each attempt takes one outcome; when none is left, connecting works.
    pub(crate) attempts: Mutex<VecDeque<Attempt>>,
    pub(crate) connects: AtomicUsize,
    /// The revision that each attempt expected.
    pub(crate) expected: Mutex<Vec<Option<Revision>>>,
    pub(crate) seen: Mutex<Vec<(Method, Raw)>>,
    pub(crate) dropped: Arc<AtomicUsize>,
    /// Whether it answers no list any more.
    /// What its lists have beside their entries.
    pub(crate) stamps: Mutex<serde_json::Map<String, Value>>,
    /// The extensions that it declares.
    pub(crate) extensions: Mutex<serde_json::Map<String, Value>>,
    pub(crate) mute: AtomicBool,
    /// Whether it answers `tools/list` with an error.
    pub(crate) tools_fail: AtomicBool,
    /// Whether it has no way to announce changes.
    pub(crate) silent: AtomicBool,
    /// Whether it declares that it keeps a log level.
    pub(crate) levels: AtomicBool,
    /// Whether its behaviour answers a listen, which otherwise stays open without any message.
    pub(crate) acknowledges: AtomicBool,
    /// How long a link takes to close.
    pub(crate) closing: Mutex<Duration>,
    /// Whether it refuses connections because the user has not signed in.
    pub(crate) needs_sign_in: AtomicBool,
    /// Released when the user has signed in at the page of a sign-in that was begun.
    pub(crate) signed_in: Arc<Notify>,
    events: Mutex<Option<mpsc::Sender<LinkEvent>>>,
}

pub(crate) enum Attempt {
    Fails,
    Hangs,
}

impl Double {
    pub(crate) fn new(revision: Revision, tools: &[&str]) -> Arc<Self> {
        Self::with(revision, tools, echo())
    }

    pub(crate) fn with(revision: Revision, tools: &[&str], behaviour: Behaviour) -> Arc<Self> {
        let tool = |name: &&str| json!({ "name": name, "description": format!("does {name}"), "inputSchema": { "type": "object" } });
        Arc::new(Self {
            revision,
            fingerprint: format!("{}", NEXT.fetch_add(1, Ordering::SeqCst)),
            tools: Mutex::new(tools.iter().map(tool).collect()),
            resources: Mutex::default(),
            prompts: Mutex::default(),
            behaviour,
            attempts: Mutex::default(),
            connects: AtomicUsize::new(0),
            expected: Mutex::default(),
            seen: Mutex::default(),
            dropped: Arc::default(),
            stamps: Mutex::default(),
            extensions: Mutex::default(),
            mute: AtomicBool::new(false),
            tools_fail: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            levels: AtomicBool::default(),
            acknowledges: AtomicBool::default(),
            closing: Mutex::default(),
            needs_sign_in: AtomicBool::default(),
            signed_in: Arc::default(),
            events: Mutex::default(),
        })
    }

    pub(crate) fn say(&self, event: LinkEvent) {
        let sender = self.events.lock().clone().unwrap();
        sender.try_send(event).unwrap();
    }

    /// Ends the connection, if there is one.
    pub(crate) fn hang_up(&self, reason: &str) {
        if let Some(sender) = &*self.events.lock() {
            let _ = sender.try_send(LinkEvent::Closed(reason.into()));
        }
    }

    pub(crate) fn announce(&self, method: Method) {
        self.say(LinkEvent::Notification(None, Notification::new(method, None)));
    }

    fn greeting(&self) -> Greeting {
        let mut capabilities = json!({ "tools": { "listChanged": true } });
        if !self.resources.lock().is_empty() {
            capabilities["resources"] = json!({ "subscribe": true });
        }
        if !self.prompts.lock().is_empty() {
            capabilities["prompts"] = json!({});
        }
        if self.levels.load(Ordering::SeqCst) {
            capabilities["logging"] = json!({});
        }
        if self.tools.lock().iter().any(|tool| tool["execution"].is_object()) {
            if self.revision.is_modern() {
                capabilities["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
            } else {
                capabilities["tasks"] = json!({ "requests": { "tools": { "call": {} } } });
            }
        }
        let extensions = self.extensions.lock().clone();
        if !extensions.is_empty() {
            capabilities["extensions"] = extensions.into();
        }
        let whole =
            json!({ "capabilities": capabilities, "serverInfo": { "name": "double", "version": "1" } });
        Greeting::read(self.revision, raw(whole))
    }
}

/// Answers a tool with its own name and arguments.
pub(crate) fn echo() -> Behaviour {
    Arc::new(|request, _| {
        let text = request.params.as_str().to_owned();
        Box::pin(async move {
            Ok(AnswerBody::Whole(
                raw(json!({ "content": [{ "type": "text", "text": text }] })),
                Revision::NEWEST,
            ))
        })
    })
}

struct Door(Arc<Double>);

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("double")
    }
}

impl Connect for Door {
    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let double = self.0.clone();
        Box::pin(async move {
            double.connects.fetch_add(1, Ordering::SeqCst);
            double.expected.lock().push(known);
            let attempt = double.attempts.lock().pop_front();
            match attempt {
                Some(Attempt::Fails) => return Err("connection refused".into()),
                Some(Attempt::Hangs) => std::future::pending::<()>().await,
                None => {}
            }
            if double.needs_sign_in.load(Ordering::SeqCst) {
                return Err("needs a sign-in".into());
            }
            let (sender, events) = mpsc::channel(64);
            *double.events.lock() = Some(sender.clone());
            let greeting = double.greeting();
            Ok(Connected { link: Arc::new(DoubleLink { double, greeting, events: sender }), events })
        })
    }

    fn after_loss(&self) -> AfterLoss {
        let needs_user = self.0.needs_sign_in.load(Ordering::SeqCst);
        if needs_user { AfterLoss::SignIn } else { AfterLoss::TryAgain }
    }

    fn begin_sign_in(&self) -> Option<BoxFuture<Result<BegunSignIn, Reason>>> {
        let double = self.0.clone();
        double.needs_sign_in.load(Ordering::SeqCst).then(|| {
            let outcome: BoxFuture<_> = Box::pin(async move {
                double.signed_in.notified().await;
                double.needs_sign_in.store(false, Ordering::SeqCst);
                Ok(())
            });
            let url = "http://127.0.0.1:7777/oauth/start/one".to_owned();
            Box::pin(async { Ok(BegunSignIn { url, outcome }) }) as BoxFuture<_>
        })
    }
}

struct DoubleLink {
    double: Arc<Double>,
    greeting: Greeting,
    events: mpsc::Sender<LinkEvent>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Link for DoubleLink {
    fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    fn announces_changes(&self) -> bool {
        !self.double.silent.load(Ordering::SeqCst)
    }

    fn call(&self, request: LinkRequest, peer: Peer) -> BoxFuture<Answer> {
        let list = |key: &str, list: &Mutex<Vec<Value>>| {
            let mut result = self.double.stamps.lock().clone();
            result.insert(key.to_owned(), list.lock().clone().into());
            Some(Value::Object(result))
        };
        let listed = match request.method.as_str() {
            "tools/list" => list("tools", &self.double.tools),
            "resources/list" => list("resources", &self.double.resources),
            "resources/templates/list" => Some(json!({ "resourceTemplates": [] })),
            "prompts/list" => list("prompts", &self.double.prompts),
            "subscriptions/listen"
                if request.params.at(&["notifications", "taskIds"]).is_none()
                    && !self.double.acknowledges.load(Ordering::SeqCst) =>
            {
                return Box::pin(std::future::pending());
            }
            _ => None,
        };
        if listed.is_some() && self.double.mute.load(Ordering::SeqCst) {
            return Box::pin(async { Err(CallError::bad_answer("no list")) });
        }
        if request.method == Method::TOOLS_LIST && self.double.tools_fail.load(Ordering::SeqCst) {
            let error = raw(json!({ "code": -32603, "message": "the database is locked" }));
            return Box::pin(async { Err(CallError::reported(error)) });
        }
        if let Some(listed) = listed {
            return Box::pin(async move { Ok(AnswerBody::Whole(raw(listed), Revision::NEWEST)) });
        }
        self.double.seen.lock().push((request.method.clone(), request.params.as_raw().clone()));
        let counted = CountDrop(self.double.dropped.clone());
        let answer = (self.double.behaviour)(request, peer);
        Box::pin(async move {
            let answer = answer.await;
            std::mem::forget(counted);
            answer
        })
    }

    fn notify(&self, _: &Arc<Origin>, notification: Notification) {
        let params = notification.params.unwrap_or_else(Raw::empty_object);
        self.double.seen.lock().push((notification.method, params));
    }

    fn close(&self) -> BoxFuture<()> {
        let _ = self.events.try_send(LinkEvent::Closed("it was closed by the gateway".into()));
        let takes = *self.double.closing.lock();
        Box::pin(tokio::time::sleep(takes))
    }
}

/// A gateway over doubles, without anything stored.
pub(crate) fn gateway(doubles: &[(&str, &Arc<Double>)]) -> Gateway {
    start(doubles, |_| {})
}

pub(crate) fn start(doubles: &[(&str, &Arc<Double>)], adjust: impl FnOnce(&mut Plan)) -> Gateway {
    let mut plan = plan(doubles);
    adjust(&mut plan);
    Gateway::start(plan, &Scope::new())
}

/// The same double is the same definition; another one is another.
pub(crate) fn plan(doubles: &[(&str, &Arc<Double>)]) -> Plan {
    let upstream = |(id, double): &(&str, &Arc<Double>)| {
        let (id, connect) = (UpstreamId::parse_configured(id).unwrap(), Arc::new(Door((*double).clone())));
        let mut plan = UpstreamPlan::new(id, UpstreamKind::Server, connect);
        plan.policy.timeouts = Timeouts { idle: Duration::from_secs(30), hard: Duration::from_mins(2) };
        plan.fingerprint.clone_from(&double.fingerprint);
        plan
    };
    Plan { upstreams: doubles.iter().map(upstream).collect(), ..Plan::default() }
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// One client, of one revision, looking at one view.
pub(crate) struct Client {
    gateway: Gateway,
    origin: Arc<Origin>,
    pub(crate) inbox: Arc<Inbox>,
}

/// What reaches the client outside of answers, and how it answers questions.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) received: Mutex<Vec<Notification>>,
    pub(crate) asked: Mutex<Vec<Ask>>,
    pub(crate) reply: Mutex<Option<Value>>,
}

impl Inbox {
    pub(crate) fn methods(&self) -> Vec<String> {
        self.received.lock().iter().map(|received| received.method.to_string()).collect()
    }
}

struct Mouth(Arc<Inbox>);

impl Back for Mouth {
    fn notify(&self, notification: Notification) {
        self.0.received.lock().push(notification);
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        self.0.asked.lock().push(ask);
        let reply = self.0.reply.lock().clone();
        Box::pin(async move { reply.map(raw).ok_or(AskError::Unsupported("no".into())) })
    }
}

impl Client {
    pub(crate) fn new(gateway: &Gateway, revision: Revision, view: &str) -> Self {
        let origin = Arc::new(Origin::new(
            View::parse(view).unwrap(),
            Principal::local(),
            ClientKey::Connection(NEXT.fetch_add(1, Ordering::SeqCst)),
            revision,
        ));
        Self { gateway: gateway.clone(), origin, inbox: Arc::default() }
    }

    /// A client that has authenticated.
    pub(crate) fn named(gateway: &Gateway, revision: Revision, view: &str, name: &str) -> Self {
        let mut client = Self::new(gateway, revision, view);
        if let Some(origin) = Arc::get_mut(&mut client.origin) {
            origin.principal = Principal::token(name);
        }
        client
    }

    /// A request without a session.
    pub(crate) fn alone(gateway: &Gateway, view: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let mut client = Self::new(gateway, Revision::NEWEST, view);
        if let Some(origin) = Arc::get_mut(&mut client.origin) {
            origin.client = ClientKey::Request(number);
        }
        client
    }

    /// A request without a session of a program that states this name.
    pub(crate) fn stating(gateway: &Gateway, name: &str) -> Self {
        let mut client = Self::alone(gateway, "");
        if let Some(origin) = Arc::get_mut(&mut client.origin) {
            origin.client_info = Some(raw(json!({ "name": name, "version": "1" })));
        }
        client
    }

    /// A request with a credential, which other programs may have too.
    pub(crate) fn with_token(gateway: &Gateway, view: &str) -> Self {
        let mut client = Self::new(gateway, Revision::NEWEST, view);
        if let Some(origin) = Arc::get_mut(&mut client.origin) {
            origin.client = ClientKey::Principal(Principal::token("token"));
        }
        client
    }

    pub(crate) fn key(&self) -> &ClientKey {
        &self.origin.client
    }

    /// Declares its capabilities again, as a modern client does with every request.
    pub(crate) fn declare(&mut self, capabilities: Value) {
        let Origin { view, principal, client, revision, .. } = &*self.origin;
        self.origin = Arc::new(
            Origin::new(view.clone(), principal.clone(), client.clone(), *revision)
                .with_capabilities(raw(capabilities)),
        );
    }

    /// Chooses its log level, as a session does.
    pub(crate) fn set_level(&self, level: &str) {
        self.origin.log_level.set(LogLevel::parse(level).unwrap());
    }

    /// It was connected to this instance before a restart.
    pub(crate) fn restore_session(&self, instance: &str) {
        self.gateway.restore_session(&self.origin, instance);
    }

    /// Its session begins.
    pub(crate) fn begin(&self) {
        self.gateway.began(&self.origin);
    }

    pub(crate) fn end(&self) {
        self.gateway.ended(&self.origin.client);
    }

    /// A request without parameters.
    pub(crate) fn request(&self, method: &str) -> Request {
        let id = Id::number(NEXT.fetch_add(1, Ordering::SeqCst));
        let (origin, method) = (self.origin.clone(), Method::new(method));
        Request::new(origin, id, method, Params::none())
    }

    pub(crate) fn send(&self, method: &str, params: Value) -> BoxFuture<Answer> {
        self.send_exactly(method, raw(params))
    }

    pub(crate) fn send_exactly(&self, method: &str, params: Raw) -> BoxFuture<Answer> {
        let request = Request { params: params.into(), ..self.request(method) };
        self.gateway.handle(request, Peer::new(Arc::new(Mouth(self.inbox.clone()))))
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> Result<Value, CallError> {
        match self.send(method, params).await? {
            AnswerBody::Whole(result, _) => Ok(result.read().unwrap()),
            AnswerBody::Stream(_) => panic!("nothing streams here"),
        }
    }

    pub(crate) async fn names(&self, method: &str, key: &str, member: &str) -> Vec<String> {
        let result = self.ask(method, json!({})).await.unwrap();
        result[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry[member].as_str().unwrap().to_owned())
            .collect()
    }

    /// The tools it sees, without the built-in ones.
    pub(crate) async fn tools(&self) -> Vec<String> {
        let mut names = self.names("tools/list", "tools", "name").await;
        names.retain(|name| !name.starts_with("yard__"));
        names
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<Value, CallError> {
        self.ask("tools/call", json!({ "name": name, "arguments": arguments })).await
    }
}
