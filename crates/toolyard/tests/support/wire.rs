//! A client made of plain bytes, of both eras, over every transport: it keeps what comes back exactly as it
//! came. It shares no code with the gateway, so that a mistake there cannot hide here.

mod http;
mod message;
pub(crate) mod script;
mod stdio;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::gateway::Reach;
use http::{Events, Http, Replies};
use message::Message;
use script::answer_to;
use stdio::Lines;

/// No exchange takes longer; the slowest are tasks of some seconds.
const WAIT: Duration = Duration::from_mins(1);

pub(crate) const LEGACY: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// Something to ask. The label is its progress token, too.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) label: String,
    pub(crate) method: String,
    pub(crate) params: Value,
    /// `Mcp-Param-*` headers, for modern HTTP.
    pub(crate) headers: Vec<(String, String)>,
}

/// All messages of one request, to the byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Notifications, as `[method, params]`.
    pub(crate) notifications: Vec<(String, String)>,
    /// Questions of the server, as `[method, params]`.
    pub(crate) asked: Vec<(String, String)>,
    /// `result`, or `error`.
    pub(crate) outcome: Result<String, String>,
}

pub(crate) struct Client {
    door: Door,
    era: Era,
    sent: u64,
    /// Reads what comes outside of any request, as long as there is a client.
    inbox: JoinSet<()>,
}

enum Door {
    Http(Http),
    Sse(Http, Box<Events>),
    Lines(Lines),
}

impl Door {
    async fn open(reach: &Reach) -> Self {
        match reach {
            Reach::Child(words) => Self::Lines(Lines::start(words)),
            Reach::Url(url) if url.starts_with("http") && url.contains("/sse") => {
                let mut http = Http::new(url);
                let events = http.open_events().await;
                Self::Sse(http, Box::new(events))
            }
            Reach::Url(url) if url.starts_with("http") => Self::Http(Http::new(url)),
            Reach::Url(url) => Self::Lines(Lines::connect(url).await),
        }
    }
}

impl Request {
    pub(crate) fn new(label: impl Into<String>, method: &str, params: Value) -> Self {
        Self { label: label.into(), method: method.to_owned(), params, headers: Vec::new() }
    }
}

impl Exchange {
    /// The result, read.
    pub(crate) fn result(&self) -> Value {
        let result = self.outcome.as_ref().unwrap_or_else(|error| panic!("an error: {error}"));
        serde_json::from_str(result).unwrap()
    }
}

impl Client {
    /// Opens a connection to a server in the way of `era`; returns the server's description of itself.
    pub(crate) async fn open(reach: &Reach, era: Era) -> (Self, Exchange) {
        let door = Door::open(reach).await;
        let mut client = Self { door, era, sent: 0, inbox: JoinSet::new() };
        let greeting = match era {
            Era::Legacy => client.initialize().await,
            Era::Modern => client.exchange(&Request::new("discover", "server/discover", json!({}))).await,
        };
        (client, greeting)
    }

    /// The same client at the same URL, for one more request at the same time; ids go on after `sent`.
    pub(crate) fn beside(&self, sent: u64) -> Self {
        let Door::Http(http) = &self.door else { panic!("a pipe has no room for two") };
        Self { door: Door::Http(http.clone()), era: self.era, sent, inbox: JoinSet::new() }
    }

    async fn initialize(&mut self) -> Exchange {
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": capabilities(Era::Legacy),
            "clientInfo": client_info(),
        });
        let greeting = self.exchange(&Request::new("initialize", "initialize", params)).await;
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
        match &mut self.door {
            Door::Http(http) => {
                http.post(&initialized, &[]).await;
                self.inbox.spawn(http.clone().answer_inbox());
            }
            Door::Sse(..) | Door::Lines(_) => self.say(&initialized).await,
        }
        greeting
    }

    /// Asks, answers what is asked in return, and waits for the end of it.
    pub(crate) async fn exchange(&mut self, request: &Request) -> Exchange {
        let exchange = timeout(WAIT, self.talk(request)).await;
        exchange.unwrap_or_else(|_| panic!("no answer to {request:?} within {WAIT:?}"))
    }

    async fn talk(&mut self, request: &Request) -> Exchange {
        self.sent += 1;
        // Both kinds of ids must come back as they were sent.
        let id =
            if self.sent.is_multiple_of(2) { json!(self.sent) } else { json!(format!("r{}", self.sent)) };
        let params = self.enveloped(request);
        let text = json!({ "jsonrpc": "2.0", "id": id, "method": request.method, "params": params });
        let text = text.to_string();
        let mut replies = match &mut self.door {
            Door::Http(http) => http.post(&text, &headers(self.era, request)).await,
            Door::Sse(..) | Door::Lines(_) => {
                self.say(&text).await;
                Replies::None
            }
        };
        let mut exchange =
            Exchange { notifications: Vec::new(), asked: Vec::new(), outcome: Ok(String::new()) };
        loop {
            let next = match &mut self.door {
                Door::Http(_) => replies.next().await,
                Door::Sse(_, events) => events.next().await,
                Door::Lines(lines) => lines.read().await,
            };
            let text = next.unwrap_or_else(|| panic!("the answer to {request:?} never came"));
            match Message::parse(&text) {
                Message::Notification { method, params } => exchange.notifications.push((method, params)),
                Message::Request { id, method, params } => {
                    self.say(&answer_to(&id, &method, &params)).await;
                    exchange.asked.push((method, params));
                }
                Message::Response { id: of, outcome } => {
                    assert_eq!(of, id.to_string(), "an answer to something else: {text}");
                    return Exchange { outcome, ..exchange };
                }
            }
        }
    }

    async fn say(&mut self, text: &str) {
        match &mut self.door {
            Door::Http(http) | Door::Sse(http, _) => drop(http.post(text, &[]).await),
            Door::Lines(lines) => lines.write(text).await,
        }
    }

    fn enveloped(&self, request: &Request) -> Value {
        let mut params = request.params.clone();
        if self.era == Era::Modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = client_info();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities(Era::Modern);
            params["_meta"]["io.modelcontextprotocol/logLevel"] = "info".into();
        }
        if request.method == "tools/call" {
            params["_meta"]["progressToken"] = request.label.as_str().into();
        }
        params
    }
}

fn client_info() -> Value {
    json!({ "name": "plain-bytes", "version": "1" })
}

fn capabilities(era: Era) -> Value {
    match era {
        Era::Legacy => json!({ "roots": {}, "sampling": {}, "elicitation": { "form": {}, "url": {} } }),
        Era::Modern => json!({
            "roots": {}, "sampling": {}, "elicitation": {},
            "extensions": { "io.modelcontextprotocol/tasks": {} },
        }),
    }
}

/// The parts of a modern request that are repeated outside its body.
fn headers(era: Era, request: &Request) -> Vec<(String, String)> {
    if era == Era::Legacy {
        return Vec::new();
    }
    let mut headers = request.headers.clone();
    headers.push(("mcp-protocol-version".to_owned(), MODERN.to_owned()));
    headers.push(("mcp-method".to_owned(), request.method.clone()));
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return headers,
    };
    headers.push(("mcp-name".to_owned(), request.params[name].as_str().unwrap_or_default().to_owned()));
    headers
}
