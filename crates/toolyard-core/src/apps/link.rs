//! An app as an upstream: calls become `toolInvocation`s, and its registration defines the tools that it offers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;
use toolyard_model::{Answer, AnswerBody, BoxFuture, Greeting, Link, LinkEvent, LinkRequest, Origin, Peer};
use toolyard_proto::app::{self, Offered, missing_result, to_tool_result};
use toolyard_proto::{CallError, Method, Notification, Raw, Revision};

use super::channel::AppChannel;
use super::queue::Queue;

/// How long an app may take to answer a heartbeat.
const BEAT_WAIT: Duration = Duration::from_secs(30);

pub(super) struct AppLink {
    greeting: Greeting,
    shared: Arc<LinkedApp>,
}

pub(super) struct LinkedApp {
    pub(super) channel: Arc<AppChannel>,
    tools: Mutex<Tools>,
    pub(super) queue: Queue,
    /// The app's own name; if the gateway connected to it, it may be listed under another one.
    pub(super) own_name: Box<str>,
    events: mpsc::Sender<LinkEvent>,
    /// Whether the app's registration states that it supports our additions to the protocol.
    speaks_additions: bool,
}

/// The tools that the app offers.
#[derive(Default)]
struct Tools {
    /// The name that the app knows, by the name in the catalog.
    wires: HashMap<String, Raw>,
    /// The answer to `tools/list`.
    list: Vec<Raw>,
}

impl Tools {
    fn new(offered: &[Offered]) -> Self {
        Self {
            wires: offered.iter().map(|tool| (tool.name.clone(), tool.wire.clone())).collect(),
            list: offered.iter().map(|tool| tool.definition.clone()).collect(),
        }
    }
}

impl AppLink {
    pub(super) fn new(
        channel: Arc<AppChannel>,
        offered: &[Offered],
        queue: Queue,
        details: AppDetails<'_>,
    ) -> (Self, mpsc::Receiver<LinkEvent>) {
        // All events but the last are equal, so one in the queue is enough; the second place is for the last event.
        let (events, receiver) = mpsc::channel(2);
        let greeting = greeting(&channel.name, &details);
        let tools = Mutex::new(Tools::new(offered));
        let AppDetails { own_name, version, .. } = details;
        let shared =
            LinkedApp { channel, tools, queue, own_name, events, speaks_additions: version.is_some() };
        (Self { greeting, shared: Arc::new(shared) }, receiver)
    }

    pub(super) fn shared(&self) -> Arc<LinkedApp> {
        self.shared.clone()
    }
}

/// The facts known about an app besides its tools.
pub(super) struct AppDetails<'a> {
    pub(super) own_name: Box<str>,
    pub(super) version: Option<u32>,
    /// Its description in the config; agents read it.
    pub(super) description: Option<&'a str>,
}

fn greeting(name: &str, details: &AppDetails<'_>) -> Greeting {
    let title = format!("App {name}");
    let version = format!("app protocol {}", details.version.unwrap_or(0));
    let info = json!({ "name": name, "title": title, "version": version });
    let mut whole = json!({
        "supportedVersions": [Revision::NEWEST.as_str()],
        "capabilities": { "tools": { "listChanged": true } },
        "resultType": "complete",
        "_meta": { "io.modelcontextprotocol/serverInfo": info },
    });
    if let Some(description) = details.description {
        whole["instructions"] = description.into();
    }
    Greeting::read(Revision::NEWEST, whole.into())
}

impl LinkedApp {
    /// Replaces the tools that it offers.
    pub(super) fn change(&self, offered: &[Offered]) {
        *self.tools.lock() = Tools::new(offered);
        if self.events.capacity() > 1 {
            let news = Notification::new(Method::TOOLS_CHANGED, None);
            let _ = self.events.try_send(LinkEvent::Notification(None, news));
        }
    }

    /// Sends the last event of the link.
    pub(super) fn closed(&self) {
        let _ = self.events.try_send(LinkEvent::Closed(self.channel.why().into()));
    }

    fn list(&self) -> Raw {
        let tools = self.tools.lock();
        Raw::empty_object()
            .with("tools", &Raw::array(&tools.list))
            .with("resultType", &Raw::from_serialize(&"complete"))
    }

    /// How many tools it offers.
    pub(super) fn tools(&self) -> usize {
        self.tools.lock().list.len()
    }

    fn wire(&self, name: &str) -> Option<Raw> {
        self.tools.lock().wires.get(name).cloned()
    }

    async fn call(&self, request: LinkRequest, peer: Peer) -> Answer {
        let params = &request.params;
        let name = params.member("name").and_then(|name| name.as_string()).unwrap_or_default();
        let wire = self.wire(&name).ok_or_else(|| {
            let message = format!("app `{}` offers no tool `{name}` any more", self.channel.name);
            CallError::invalid_params(message).at(&self.channel.name)
        })?;
        let _room = self.queue.room(&self.channel.name, params.len())?;
        let token = params.at(&["_meta", "progressToken"]);
        let arguments = params.member("arguments");
        let _turn = self.queue.turn(&self.channel.name, &peer, token.as_ref()).await?;
        let result = self.channel.call(&wire, arguments.as_ref(), peer, token).await?;
        Ok(AnswerBody::ours(result.map_or_else(missing_result, |result| to_tool_result(&result))))
    }

    /// Whether the app responds: by a heartbeat if it knows heartbeats, otherwise by its open connection alone.
    async fn check(&self) -> Result<(), CallError> {
        if self.speaks_additions && !self.channel.is_over() {
            let beat = self.channel.beat.notified();
            self.channel.aside(app::heartbeat());
            tokio::select! {
                beat = tokio::time::timeout(BEAT_WAIT, beat) => {
                    beat.map_err(|_| CallError::timeout("it does not answer heartbeats"))?;
                }
                () = self.channel.closing.cancelled() => {}
            }
        }
        if self.channel.is_over() { Err(CallError::unavailable(self.channel.why())) } else { Ok(()) }
    }
}

impl Link for AppLink {
    fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    fn call(&self, request: LinkRequest, peer: Peer) -> BoxFuture<Answer> {
        let shared = self.shared.clone();
        match request.method.as_str() {
            "tools/call" => Box::pin(async move { shared.call(request, peer).await }),
            "tools/list" => Box::pin(async move { Ok(AnswerBody::ours(shared.list())) }),
            "server/discover" => {
                let whole = self.greeting.whole.clone();
                Box::pin(async move { shared.check().await.map(|()| AnswerBody::ours(whole)) })
            }
            other => {
                let unknown = CallError::unknown_method(other);
                Box::pin(async { Err(unknown) })
            }
        }
    }

    fn notify(&self, _: &Arc<Origin>, _: Notification) {}

    /// Apps without our additions do not support heartbeats; only their open connection shows that they are running.
    fn answers_pings(&self) -> bool {
        self.shared.speaks_additions
    }

    fn close(&self) -> BoxFuture<()> {
        self.shared.channel.end("the gateway closed the connection");
        Box::pin(async {})
    }
}

impl Drop for AppLink {
    fn drop(&mut self) {
        self.shared.channel.end("the gateway released the connection");
    }
}
