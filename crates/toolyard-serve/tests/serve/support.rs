//! For tests of the endpoint: a handler whose tools do what a test needs, and a plain HTTP client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request as HttpRequest};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use toolyard_model::answer::RelayError;
use toolyard_model::{
    Answer, AnswerBody, Ask, BoxFuture, ClientKey, Handler, Origin, Peer, Relay, RelayKind, Request, Scope,
    View,
};
use toolyard_proto::codec::sse::{Event, EventDecoder};
use toolyard_proto::{CallError, Method, Notification, Raw, Revision};
use toolyard_serve::{Endpoint, Options, serve_http};

#[derive(Default)]
pub(crate) struct Double {
    pub(crate) started: AtomicUsize,
    /// Calls of `wait` and `hang` that were dropped before they ended.
    pub(crate) dropped: Arc<AtomicUsize>,
    /// Notifications that `flood` has sent.
    pub(crate) flooded: Arc<AtomicUsize>,
    pub(crate) gate: Arc<Notify>,
    late: Arc<Notify>,
    scope: Scope,
    pub(crate) listeners: Mutex<Vec<Peer>>,
    /// How many subscriptions to resources are still refused.
    pub(crate) refusals: AtomicUsize,
    pub(crate) notices: Mutex<Vec<String>>,
    pub(crate) ended: Mutex<Vec<ClientKey>>,
    pub(crate) origins: Mutex<Vec<Arc<Origin>>>,
    pub(crate) requests: Mutex<Vec<Request>>,
}

struct CountDrop(Option<Arc<AtomicUsize>>);

impl CountDrop {
    fn finished(&mut self) {
        self.0 = None;
    }
}

impl Drop for CountDrop {
    fn drop(&mut self) {
        if let Some(count) = self.0.take() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Double {
    /// Sends a notification to every listener.
    pub(crate) fn announce(&self, method: &Method, params: Option<&Value>) {
        for peer in &*self.listeners.lock() {
            peer.notify(Notification::new(method.clone(), params.cloned().map(Raw::from)));
        }
    }

    fn listen(&self, request: &Request, peer: Peer) -> BoxFuture<Answer> {
        let filter = request.params.member("notifications").unwrap_or_else(Raw::empty_object);
        let refuse = |left: usize| left.checked_sub(1);
        let is_refused = filter.as_str().contains("refused:")
            || filter.member("resourceSubscriptions").is_some()
                && self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuse).is_ok();
        if is_refused {
            return Box::pin(async { Err(CallError::invalid_params("no such resource")) });
        }
        let honoured = if filter.as_str().contains("unknown:") { Raw::empty_object() } else { filter };
        let params = Raw::empty_object().with("notifications", &honoured);
        let count = CountDrop(Some(self.dropped.clone()));
        self.listeners.lock().push(peer.clone());
        Box::pin(async move {
            peer.notify(Notification::new(Method::ACKNOWLEDGED, params));
            let _count = count;
            std::future::pending().await
        })
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each tool")]
    fn call(&self, request: &Request, peer: Peer) -> BoxFuture<Answer> {
        let arguments: Value =
            request.params.member("arguments").map_or(Value::Null, |arguments| arguments.read().unwrap());
        let name = request.params.member("name").and_then(|name| name.as_string()).unwrap_or_default();
        let mut count = CountDrop(Some(self.dropped.clone()));
        let (gate, late, id) = (self.gate.clone(), self.late.clone(), request.id.clone());
        let (scope, flooded) = (self.scope.clone(), self.flooded.clone());
        Box::pin(async move {
            match name.as_str() {
                "notify" => {
                    for n in 0..arguments["count"].as_u64().unwrap() {
                        peer.notify(progress(n));
                        tokio::task::yield_now().await;
                    }
                }
                "burst" => (0..arguments["count"].as_u64().unwrap()).for_each(|n| peer.notify(progress(n))),
                "notify_and_wait" => {
                    peer.notify(progress(0));
                    gate.notified().await;
                }
                "log" => {
                    for level in ["debug", "warning", "error"] {
                        let params: Raw = json!({ "level": level, "data": level }).into();
                        peer.notify(Notification::new(Method::LOG, params));
                    }
                }
                "flood" => loop {
                    let long: Raw = json!({ "progressToken": 1, "message": "x".repeat(100_000) }).into();
                    peer.notify(Notification::new(Method::PROGRESS, long));
                    flooded.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                },
                "wait" => gate.notified().await,
                // Sends another message after its answer, and then notifies `late`.
                "late" => scope.spawn(async move {
                    gate.notified().await;
                    peer.notify(progress(9));
                    late.notify_one();
                }),
                "after_late" => late.notified().await,
                "hang" => std::future::pending().await,
                "panic" => panic!("on purpose"),
                "ask" => {
                    let params: Raw = json!({ "message": "?" }).into();
                    let reply = peer.ask(Ask { method: Method::ELICIT, params: Some(params) }).await;
                    count.finished();
                    let text = match reply {
                        Ok(reply) => format!("reply {}", reply.as_str()),
                        Err(error) => format!("error {error}"),
                    };
                    return text_answer(&text);
                }
                "ask_two" => {
                    let ask = || peer.ask(Ask { method: Method::ELICIT, params: None });
                    let (one, two) = tokio::join!(ask(), ask());
                    count.finished();
                    return text_answer(&format!("{} {}", one.unwrap().as_str(), two.unwrap().as_str()));
                }
                "ask_then_notify" => {
                    let _ = peer.ask(Ask { method: Method::ELICIT, params: None }).await;
                    peer.notify(progress(7));
                }
                "hang_up" => {
                    if arguments["first"].as_bool() == Some(true) {
                        peer.notify(progress(1));
                    }
                    peer.hang_up(Duration::from_millis(100));
                    gate.notified().await;
                    peer.notify(progress(2));
                }
                "relay_json" | "relay_sse" => {
                    count.finished();
                    let kind = if name == "relay_json" { RelayKind::Json } else { RelayKind::Sse };
                    if arguments["notify"].as_bool() == Some(true) {
                        peer.notify(progress(0));
                    }
                    let text = match kind {
                        RelayKind::Json => format!(
                            r#"{{"jsonrpc":"2.0","id":{},"result":{{"relayed":1}}}}"#,
                            id.as_raw().as_str()
                        ),
                        RelayKind::Sse => "data: {\"relayed\":1}\n\n".to_owned(),
                    };
                    let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
                    return Ok(AnswerBody::Stream(Relay::new(kind, body.map_err(|e: RelayError| e))));
                }
                "relay_broken" | "events_broken" => {
                    count.finished();
                    let broken = RelayError::from(CallError::lost("broken off"));
                    let frames = [Ok(Frame::data(Bytes::from("data: 1\n\n"))), Err(broken)];
                    let body = StreamBody::new(futures_util::stream::iter(frames));
                    let kind = if name == "events_broken" { RelayKind::Sse } else { RelayKind::Json };
                    return Ok(AnswerBody::Stream(Relay::new(kind, body)));
                }
                "missing_capability" => {
                    return Err(CallError::missing_capability(
                        json!({ "sampling": {} }).into(),
                        "needs sampling",
                    ));
                }
                "lost" => return Err(CallError::lost("the upstream is gone")),
                "lines" => {
                    count.finished();
                    let raw = Raw::parse("{\n\"content\":\r\n[]}").unwrap();
                    return Ok(AnswerBody::Whole(raw, Revision::NEWEST_LEGACY));
                }
                "big" => {
                    count.finished();
                    return text_answer(
                        &"x".repeat(usize::try_from(arguments["size"].as_u64().unwrap()).unwrap()),
                    );
                }
                _ => {}
            }
            count.finished();
            text_answer(&name)
        })
    }
}

fn progress(n: u64) -> Notification {
    Notification::new(Method::PROGRESS, Raw::from(json!({ "progressToken": 1, "progress": n })))
}

#[expect(clippy::unnecessary_wraps, reason = "an answer is what its callers give")]
fn text_answer(text: &str) -> Answer {
    let result = json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" });
    Ok(AnswerBody::ours(result.into()))
}

impl Handler for Double {
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer> {
        self.started.fetch_add(1, Ordering::SeqCst);
        self.origins.lock().push(request.origin.clone());
        self.requests.lock().push(request.clone());
        let result = match request.method.as_str() {
            "tools/call" => return self.call(&request, peer),
            "subscriptions/listen" => return self.listen(&request, peer),
            "server/discover" => json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {}, "extensions": { "x/y": {} } },
                "instructions": "be kind",
                "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "double", "version": "1" } },
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            }),
            "tools/list" => {
                json!({ "tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "public" })
            }
            "logging/setLevel" => json!({}),
            "panics/at-once" => panic!("on purpose"),
            "resources/read" => {
                return Box::pin(async { Err(CallError::invalid_params("no such resource")) });
            }
            method => {
                let error = CallError::unknown_method(method);
                return Box::pin(async { Err(error) });
            }
        };
        Box::pin(async move { Ok(AnswerBody::ours(result.into())) })
    }

    fn notice(&self, _: &Arc<Origin>, notification: Notification) {
        self.notices.lock().push(notification.method.to_string());
    }

    fn ended(&self, client: &ClientKey) {
        self.ended.lock().push(client.clone());
    }

    fn offers(&self, view: &View) -> bool {
        !matches!(view, View::Upstream(name) if &**name != "files")
    }
}

/// An endpoint on a free port.
pub(crate) struct World {
    pub(crate) address: String,
    pub(crate) double: Arc<Double>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) scope: Scope,
}

pub(crate) async fn world() -> World {
    world_with(Options::default()).await
}

pub(crate) async fn world_with(options: Options) -> World {
    let scope = Scope::new();
    let double = Arc::new(Double::default());
    let endpoint = Arc::new(Endpoint::new(double.clone(), options, &scope));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    scope.spawn(serve_http(listener, endpoint.clone(), scope.clone()));
    World { address, double, endpoint, scope }
}

/// A response whose body is still to be read.
pub(crate) struct Live {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    decoder: EventDecoder,
    _scope: Scope,
}

/// A response read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The data of all events in the body.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut decoder = EventDecoder::new(usize::MAX);
        decoder.feed(self.body.as_bytes());
        let mut out = Vec::new();
        while let Some(event) = decoder.next_event().unwrap() {
            if !event.data.is_empty() {
                out.push(serde_json::from_slice(&event.data).unwrap());
            }
        }
        out
    }
}

impl Live {
    pub(crate) async fn read(self) -> Reply {
        let body = self.body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Reply { status: self.status, headers: self.headers, body }
    }

    /// The next event, `None` at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.decoder.next_event().unwrap() {
                return Some(event);
            }
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame()).await.unwrap()?;
            self.decoder.feed(&frame.unwrap().into_data().unwrap());
        }
    }

    /// The JSON of the next event that has any.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        loop {
            let event = self.event().await?;
            if !event.data.is_empty() {
                return Some(serde_json::from_slice(&event.data).unwrap());
            }
        }
    }
}

pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

impl World {
    pub(crate) async fn open(&self, method: &str, path: &str, headers: Headers<'_>, body: &str) -> Live {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let scope = self.scope.child();
        scope.spawn(async move {
            let _ = connection.await;
        });
        let mut request = HttpRequest::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request = request.header("host", &self.address);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let decoder = EventDecoder::new(usize::MAX);
        Live { status: parts.status.as_u16(), headers: parts.headers, body, decoder, _scope: scope }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: Headers<'_>, body: &str) -> Reply {
        let live = self.open(method, path, headers, body).await;
        tokio::time::timeout(Duration::from_secs(10), live.read()).await.unwrap()
    }

    pub(crate) async fn open_post(&self, headers: Headers<'_>, body: &Value) -> Live {
        let mut all =
            vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        all.extend_from_slice(headers);
        self.open("POST", "/mcp", &all, &body.to_string()).await
    }

    pub(crate) async fn post(&self, headers: Headers<'_>, body: &Value) -> Reply {
        let live = self.open_post(headers, body).await;
        tokio::time::timeout(Duration::from_secs(10), live.read()).await.unwrap()
    }

    /// A correct modern request.
    pub(crate) async fn open_modern(&self, method: &str, params: Value) -> Live {
        let body = modern(method, params);
        let name = body["params"]["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        if !name.is_empty() {
            headers.push(("mcp-name", &name));
        }
        self.open_post(&headers, &body).await
    }

    pub(crate) async fn modern(&self, method: &str, params: Value) -> Reply {
        let live = self.open_modern(method, params).await;
        tokio::time::timeout(Duration::from_secs(10), live.read()).await.unwrap()
    }

    /// Shakes hands as a client of `revision` with all capabilities and gives the session's id.
    pub(crate) async fn initialize(&self, revision: &str) -> String {
        let reply = self.post(&[], &initialize(revision)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let session = reply.header("mcp-session-id").to_owned();
        assert!(!session.is_empty());
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&[("mcp-session-id", &session)], &initialized).await.status, 202);
        session
    }

    pub(crate) async fn open_legacy(&self, session: &str, method: &str, params: Value) -> Live {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.open_post(&[("mcp-session-id", session)], &body).await
    }

    pub(crate) async fn legacy(&self, session: &str, method: &str, params: Value) -> Reply {
        let live = self.open_legacy(session, method, params).await;
        tokio::time::timeout(Duration::from_secs(10), live.read()).await.unwrap()
    }

    pub(crate) async fn open_get(&self, headers: Headers<'_>) -> Live {
        let mut all = vec![("accept", "text/event-stream")];
        all.extend_from_slice(headers);
        self.open("GET", "/mcp", &all, "").await
    }
}

pub(crate) fn modern(method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

pub(crate) fn initialize(revision: &str) -> Value {
    let params = json!({
        "protocolVersion": revision,
        "capabilities": { "elicitation": {}, "sampling": {}, "roots": {} },
        "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

/// Waits until something is so, and fails when it never is.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never: {what}");
}
