//! A gateway in front of one scripted server, and a plain HTTP client that sends exactly what a test wants.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use toolyard_core::plan::Pace;
use toolyard_core::{Connect, Connected, Gateway, Plan, Timeouts, UpstreamKind, UpstreamPlan};
use toolyard_link::http::HttpSpec;
use toolyard_link::stream::StreamLink;
use toolyard_link::{EraPin, Offer, Target, UpstreamTarget, connect};
use toolyard_model::{BoxFuture, Greeting, Origin, Principal, Scope, View};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Raw, Reason, Revision};
use toolyard_serve::{Endpoint, Options, serve_stream};
use toolyard_testkit::script::{Client, Manner, Server, Wire, serve_http, serve_lines};

/// How the gateway reaches its server.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Reach {
    Http,
    /// In memory, so that time can be virtual.
    Lines,
}

pub(crate) struct World {
    pub(crate) server: Arc<Server>,
    pub(crate) gateway: Gateway,
    pub(crate) endpoint: Arc<Endpoint>,
    /// The gateway's own.
    pub(crate) scope: Scope,
    /// That of the server and the clients.
    pub(crate) others: Scope,
    address: String,
}

/// How long a session with the server may go unused.
pub(crate) const SESSION_IDLE: Duration = Duration::from_millis(400);

impl World {
    pub(crate) async fn open(revision: Revision, reach: Reach, options: Options) -> Self {
        Self::with(revision, Manner::Full, reach, options).await
    }

    pub(crate) async fn with(revision: Revision, manner: Manner, reach: Reach, options: Options) -> Self {
        Self::planned(revision, manner, reach, options, |plan| plan).await
    }

    /// With more in its plan.
    pub(crate) async fn planned(
        revision: Revision,
        manner: Manner,
        reach: Reach,
        options: Options,
        adjust: impl FnOnce(Plan) -> Plan,
    ) -> Self {
        let (scope, others) = (Scope::new(), Scope::new());
        let server = Server::with(revision, manner, &others);
        let url = match reach {
            Reach::Http => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let url = format!("http://{}/mcp", listener.local_addr().unwrap());
                others.spawn(serve_http(server.clone(), listener, others.clone()));
                Some(url)
            }
            Reach::Lines => None,
        };
        let connect = Arc::new(Way {
            server: server.clone(),
            revision,
            url,
            scope: scope.clone(),
            others: others.clone(),
        });
        let id = UpstreamId::parse("script").unwrap();
        let mut upstream = UpstreamPlan::new(id, UpstreamKind::Server, connect);
        upstream.policy.timeouts = Timeouts { idle: Duration::from_secs(30), hard: Duration::from_hours(1) };
        let pace = Pace { debounce: Duration::from_millis(5), ..Pace::default() };
        let plan = adjust(Plan { upstreams: vec![upstream], pace, ..Plan::default() });
        let gateway = Gateway::start(plan, &scope);
        let endpoint = Arc::new(Endpoint::new(Arc::new(gateway.clone()), options, &scope));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        scope.spawn(toolyard_serve::serve_http(listener, endpoint.clone(), scope.clone()));
        Self { server, gateway, endpoint, scope, others, address }
    }

    /// A scripted client in the view of the one server.
    pub(crate) async fn client(&self, revision: Revision) -> Client {
        self.client_at("/mcp/script", revision).await
    }

    /// A scripted client in the view of this path.
    pub(crate) async fn client_at(&self, path: &str, revision: Revision) -> Client {
        let client = Client::connect(Wire::http(&self.address, path), revision, &self.others).await;
        let client = client.unwrap();
        client.ask("tools/list", json!({})).await.unwrap();
        client
    }

    /// A scripted client on a connection in memory.
    pub(crate) async fn client_on_lines(&self, revision: Revision) -> Client {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let (read, write) = tokio::io::split(theirs);
        let view = View::Upstream("script".into());
        let (endpoint, scope) = (self.endpoint.clone(), self.scope.clone());
        self.scope.spawn(serve_stream(read, write, endpoint, view, Principal::local(), scope));
        Client::connect(Wire::lines(ours), revision, &self.others).await.unwrap()
    }

    /// Posts one modern request and gives the status and the last message of the answer.
    pub(crate) async fn post(&self, say: &Say<'_>) -> (u16, Value) {
        post(&self.address, say).await
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }
}

/// A modern `tools/call` in all its particulars, or a request about a task.
#[derive(Clone)]
pub(crate) struct Say<'a> {
    pub(crate) path: &'a str,
    pub(crate) token: Option<&'a str>,
    pub(crate) tool: &'a str,
    pub(crate) arguments: Value,
    pub(crate) capabilities: Value,
    /// The method and the task, where it is about one.
    pub(crate) about: Option<(&'a str, &'a str)>,
    /// The state and the answers that a client comes back with.
    pub(crate) back_with: Option<(String, Value)>,
}

pub(crate) fn say(tool: &str) -> Say<'_> {
    let capabilities = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} });
    Say {
        path: "/mcp/script",
        token: None,
        tool,
        arguments: json!({}),
        capabilities,
        about: None,
        back_with: None,
    }
}

impl<'a> Say<'a> {
    pub(crate) fn by(self, token: &'a str) -> Self {
        Self { token: Some(token), ..self }
    }

    pub(crate) fn with(self, state: &str, answers: Value) -> Self {
        Self { back_with: Some((state.to_owned(), answers)), ..self }
    }

    fn method(&self) -> &str {
        self.about.map_or("tools/call", |(method, _)| method)
    }

    fn body(&self) -> Value {
        let mut params = json!({ "name": self.tool, "arguments": self.arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        } });
        if let Some((state, answers)) = &self.back_with {
            params["requestState"] = json!(state);
            params["inputResponses"] = answers.clone();
        }
        if let Some((_, task)) = self.about {
            params = json!({ "taskId": task, "_meta": params["_meta"] });
        }
        json!({ "jsonrpc": "2.0", "id": 1, "method": self.method(), "params": params })
    }
}

pub(crate) async fn post(address: &str, say: &Say<'_>) -> (u16, Value) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let mut request = http::Request::post(say.path)
        .header("host", address)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", say.method())
        .header("mcp-name", say.about.map_or(say.tool, |(_, task)| task));
    if let Some(token) = say.token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(say.body().to_string()))).unwrap();
    let exchange = async {
        let response = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        (status, response.into_body().collect().await.unwrap().to_bytes())
    };
    // Dropping the exchange closes the connection.
    let (status, body) = tokio::select! {
        exchanged = exchange => exchanged,
        ended = connection => panic!("the connection ended: {ended:?}"),
    };
    let text = String::from_utf8(body.to_vec()).unwrap();
    let last = text.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap_or(&text);
    (status, serde_json::from_str(last).unwrap_or(Value::Null))
}

/// Waits for something that is about to happen.
pub(crate) async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if happened() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: it did not happen");
}

struct Way {
    server: Arc<Server>,
    revision: Revision,
    /// Where it serves HTTP, if it does.
    url: Option<String>,
    scope: Scope,
    others: Scope,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("script")
    }
}

impl Way {
    fn over_http(
        &self,
        url: &str,
        known: Option<Revision>,
        capabilities: Raw,
    ) -> BoxFuture<Result<Connected, Reason>> {
        let spec = HttpSpec::new(url.parse().unwrap(), http::HeaderMap::default());
        let timeouts =
            toolyard_link::Timeouts { session_idle: SESSION_IDLE, ..toolyard_link::Timeouts::default() };
        let target =
            UpstreamTarget { name: "script".into(), target: Target::Http(spec), era: EraPin::Auto, timeouts };
        let offer = Offer { capabilities, client_info: json!({ "name": "t", "version": "1" }).into() };
        let scope = self.scope.clone();
        Box::pin(async move {
            let connecting = connect(&target, known.map(Revision::era), &offer, &scope);
            connecting.await.map_err(Reason::from)
        })
    }

    /// A connection whose ends know each other's era already.
    fn in_memory(&self) -> Connected {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let (read, write) = tokio::io::split(theirs);
        let (server, scope) = (self.server.clone(), self.others.clone());
        self.others.spawn(async move { serve_lines(server, read, write, &scope).await });
        let capabilities = json!({
            "tools": {}, "logging": {}, "resources": { "subscribe": true },
            "tasks": { "cancel": {}, "requests": { "tools": { "call": {} } } },
        });
        let whole = json!({ "capabilities": capabilities });
        let greeting = Greeting::read(self.revision, whole.into());
        let (link, events) =
            StreamLink::over(&"script".into(), tokio::io::split(ours), greeting, &self.scope);
        Connected { link: Arc::new(link), events }
    }
}

impl Connect for Way {
    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let all = json!({ "roots": {}, "sampling": {}, "elicitation": { "form": {}, "url": {} } });
        if let Some(url) = &self.url {
            return self.over_http(url, known, all.into());
        }
        let connected = self.in_memory();
        Box::pin(async move { Ok(connected) })
    }

    fn connect_for(&self, known: Option<Revision>, client: &Origin) -> BoxFuture<Result<Connected, Reason>> {
        match &self.url {
            Some(url) => self.over_http(url, known, client.capabilities.clone()),
            None => self.connect(known),
        }
    }
}
