//! A server at a URL: every message is a POST, answered by JSON or by events.

use std::collections::VecDeque;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::message::Message;
use super::script::answer_to;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

#[derive(Clone)]
pub(crate) struct Http {
    pool: Client<HttpConnector, Full<Bytes>>,
    url: Uri,
    /// What a session wants on each request.
    session: HeaderMap,
}

/// What comes back for one POST.
pub(crate) enum Replies {
    None,
    One(String),
    Events(Box<Events>),
}

/// The messages of an event stream. One that breaks off is taken up again where it ended.
pub(crate) struct Events {
    http: Http,
    body: Incoming,
    unread: Vec<u8>,
    ready: VecDeque<String>,
    last_id: Option<String>,
}

impl Http {
    pub(crate) fn new(url: &str) -> Self {
        let pool = Client::builder(TokioExecutor::new()).build_http();
        Self { pool, url: url.parse().unwrap(), session: HeaderMap::new() }
    }

    pub(crate) async fn post(&mut self, message: &str, headers: &[(String, String)]) -> Replies {
        let response = self.send(Method::POST, headers, message).await;
        if let Some(session) = response.headers().get(&SESSION) {
            self.session.insert(SESSION, session.clone());
            let version = HeaderValue::from_static(super::LEGACY);
            self.session.insert("mcp-protocol-version", version);
        }
        if is_events(&response) {
            return Replies::Events(Box::new(Events::new(self.clone(), response)));
        }
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        if text.is_empty() { Replies::None } else { Replies::One(text) }
    }

    /// Opens the event stream of HTTP+SSE and learns where to post to.
    pub(crate) async fn open_events(&mut self) -> Events {
        let response = self.send(Method::GET, &[], "").await;
        assert!(is_events(&response), "no event stream: {response:?}");
        let mut events = Events::new(self.clone(), response);
        let path = events.next().await.expect("the first event is an address");
        self.url = format!("http://{}{path}", self.url.authority().unwrap()).parse().unwrap();
        events
    }

    /// Reads the server's messages outside of any request, and answers its questions.
    pub(crate) async fn answer_inbox(mut self) {
        let response = self.send(Method::GET, &[], "").await;
        if !is_events(&response) {
            return;
        }
        let mut events = Events::new(self.clone(), response);
        while let Some(text) = events.next().await {
            if let Message::Request { id, method, params } = Message::parse(&text) {
                self.post(&answer_to(&id, &method, &params), &[]).await;
            }
        }
    }

    async fn send(&self, method: Method, headers: &[(String, String)], body: &str) -> Response<Incoming> {
        let mut request = Request::builder().method(method).uri(&self.url);
        request = request.header("accept", "application/json, text/event-stream");
        request = request.header("content-type", "application/json");
        for (name, value) in &self.session {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(body.to_owned())).unwrap();
        let response = self.pool.request(request).await;
        response.unwrap_or_else(|error| panic!("send to {}: {error:?}", self.url))
    }
}

fn is_events(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get("content-type");
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

impl Replies {
    pub(crate) async fn next(&mut self) -> Option<String> {
        match self {
            Self::None => None,
            Self::One(text) => {
                let text = std::mem::take(text);
                *self = Self::None;
                Some(text)
            }
            Self::Events(events) => events.next().await,
        }
    }
}

impl Events {
    fn new(http: Http, response: Response<Incoming>) -> Self {
        let body = response.into_body();
        Self { http, body, unread: Vec::new(), ready: VecDeque::new(), last_id: None }
    }

    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.ready.pop_front() {
                return Some(text);
            }
            match self.body.frame().await {
                Some(frame) => self.take(&frame.unwrap().into_data().unwrap_or_default()),
                None => self.resume().await?,
            }
        }
    }

    /// Takes the events that are complete.
    fn take(&mut self, bytes: &[u8]) {
        self.unread.extend(bytes.iter().filter(|byte| **byte != b'\r'));
        while let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = self.unread.drain(..end + 2).collect();
            let event = String::from_utf8(event).unwrap();
            let field = |name: &str| {
                let value = event.lines().find_map(|line| line.strip_prefix(name));
                value.map(|value| value.strip_prefix(' ').unwrap_or(value).to_owned())
            };
            self.last_id = field("id:").or(self.last_id.take());
            self.ready.extend(field("data:").filter(|data| !data.is_empty()));
        }
    }

    async fn resume(&mut self) -> Option<()> {
        let last = ("last-event-id".to_owned(), self.last_id.take()?);
        let response = self.http.send(Method::GET, &[last], "").await;
        if !is_events(&response) {
            return None;
        }
        self.unread.clear();
        self.body = response.into_body();
        Some(())
    }
}
