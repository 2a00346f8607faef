//! One MCP client: the handshake of its era, then one operation after the other.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::request::Builder;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use toolyard_bench::wire;

use crate::args::{Era, Plan};
use crate::connection::Connection;
use crate::operation::{Checked, Message};
use crate::sse::Events;

/// A list that never ends is a fault of the server, not a reason to go on.
const MOST_PAGES: usize = 10_000;

pub(crate) struct Client<'a> {
    plan: &'a Plan,
    connection: Connection,
    session: Option<HeaderValue>,
    last_id: u64,
    template: Option<Template>,
    /// When the last answer was there in full.
    pub(crate) answered: Instant,
    pub(crate) bytes: usize,
}

/// A constant answer that was checked once: the next is right if it differs in the id alone.
struct Template {
    before_id: Bytes,
    after_id: Bytes,
    checked: Checked,
}

impl<'a> Client<'a> {
    /// Ids start after `last_id`, so that no two clients use the same.
    pub(crate) fn new(plan: &'a Plan, last_id: u64) -> Self {
        Self {
            plan,
            connection: Connection::new(&plan.endpoint),
            session: None,
            last_id,
            template: None,
            answered: Instant::now(),
            bytes: 0,
        }
    }

    /// Opens a session, in the era that has them.
    pub(crate) async fn start(&mut self) -> Result<(), String> {
        if self.plan.era == Era::Modern {
            return Ok(());
        }
        self.session = None;
        let id = self.next_id();
        let hello = json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
            "protocolVersion": self.plan.revision,
            "capabilities": {},
            "clientInfo": { "name": "bench-load", "version": env!("CARGO_PKG_VERSION") },
        }});
        let response = self.post(hello.to_string().into(), "initialize", None).await?;
        let session = response.headers().get(wire::SESSION_ID).cloned();
        let message = self.read_any(response).await?;
        if message.get("result").is_none() {
            return Err(format!("initialize: {message}"));
        }
        self.session = session;
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let response = self.post(done.to_string().into(), "notifications/initialized", None).await?;
        let status = response.status();
        drain(response).await?;
        if status.is_success() { Ok(()) } else { Err(format!("initialized: HTTP {status}")) }
    }

    /// One call, or one list with all its pages.
    pub(crate) async fn operate(&mut self) -> Result<(), String> {
        let operation = &self.plan.operation;
        let (mut cursor, mut tools) = (None, 0);
        for _ in 0..MOST_PAGES {
            let id = self.next_id();
            let body = operation.request(id, self.plan.era, cursor.as_deref());
            let response = self.post(body, operation.method(), operation.tool()).await?;
            let checked = self.read_answer(id, response).await?;
            tools += checked.tools;
            cursor = checked.cursor;
            if cursor.is_none() {
                break;
            }
        }
        if operation.method() == "tools/list" && tools < operation.size {
            return Err(format!("{tools} tools, {} expected", operation.size));
        }
        Ok(())
    }

    /// Ends the session, as a polite client does. Whether the server agrees is not what is measured.
    pub(crate) async fn stop(&mut self) {
        let Some(session) = self.session.take() else { return };
        let request = self.request(Method::DELETE).header(wire::SESSION_ID, session).body(Full::default());
        if let Ok(request) = request {
            let _ = self.connection.send(request).await;
        }
    }

    /// Starts over: another connection, and another session.
    pub(crate) fn forget(&mut self) {
        self.connection.close();
        self.session = None;
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn request(&self, method: Method) -> Builder {
        Request::builder()
            .method(method)
            .uri(&self.plan.endpoint.path)
            .header(HOST, &self.plan.endpoint.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, wire::ACCEPT_BOTH)
    }

    async fn post(
        &mut self,
        body: Bytes,
        method: &str,
        tool: Option<&str>,
    ) -> Result<Response<Incoming>, String> {
        let mut request = self.request(Method::POST);
        match self.plan.era {
            Era::Modern => {
                request = request.header(wire::PROTOCOL_VERSION, wire::MODERN).header(wire::METHOD, method);
                if let Some(tool) = tool {
                    request = request.header(wire::NAME, tool);
                }
            }
            Era::Legacy if method != "initialize" => {
                request = request.header(wire::PROTOCOL_VERSION, &self.plan.revision);
                if let Some(session) = &self.session {
                    request = request.header(wire::SESSION_ID, session);
                }
            }
            Era::Legacy => {}
        }
        let request = request.body(Full::new(body)).map_err(|error| format!("request: {error}"))?;
        self.connection.send(request).await
    }

    /// Reads and checks the answer to request `id` of the operation.
    async fn read_answer(&mut self, id: u64, response: Response<Incoming>) -> Result<Checked, String> {
        let operation = &self.plan.operation;
        if is_stream(&response) {
            let mut progress = 0;
            let mut events = Events::new(response.into_body());
            while let Some(raw) = events.next().await? {
                let answered = Instant::now();
                let length = raw.len();
                let message: Message<'_> = parse(raw)?;
                if message.method.as_deref() == Some("notifications/progress") {
                    progress += 1;
                } else if message.method.is_none() {
                    let checked = operation.check(id, message, progress)?;
                    self.answered = answered;
                    self.bytes += length;
                    // Read to the end, so that the connection can be used again.
                    while events.next().await?.is_some() {}
                    return Ok(checked);
                }
            }
            return Err("the stream ended without the answer".to_owned());
        }
        let body = self.read_body(response).await?;
        if let Some(template) = &self.template
            && template.fits(id, &body)
        {
            return Ok(template.checked.clone());
        }
        let checked = operation.check(id, parse(&body)?, 0)?;
        if operation.is_constant() {
            self.template = Template::new(id, &body, &checked);
        }
        Ok(checked)
    }

    /// Reads the first answer in a response, whatever it is.
    async fn read_any(&mut self, response: Response<Incoming>) -> Result<Value, String> {
        if !is_stream(&response) {
            let body = self.read_body(response).await?;
            return parse(&body);
        }
        let mut events = Events::new(response.into_body());
        let mut answer = None;
        while let Some(raw) = events.next().await? {
            let message: Value = parse(raw)?;
            if message.get("method").is_none() {
                answer = Some(message);
            }
        }
        answer.ok_or_else(|| "the stream ended without the answer".to_owned())
    }

    async fn read_body(&mut self, response: Response<Incoming>) -> Result<Bytes, String> {
        let status = response.status();
        let body = drain(response).await?;
        self.answered = Instant::now();
        self.bytes += body.len();
        if status == StatusCode::OK {
            return Ok(body);
        }
        let text: String = String::from_utf8_lossy(&body).chars().take(160).collect();
        Err(format!("HTTP {}: {text}", status.as_u16()))
    }
}

impl Template {
    fn new(id: u64, body: &Bytes, checked: &Checked) -> Option<Self> {
        let key = format!("\"id\":{id}");
        let at = body.windows(key.len()).position(|window| window == key.as_bytes())?;
        let end = at + key.len();
        Some(Self {
            before_id: body.slice(..end - id.to_string().len()),
            after_id: body.slice(end..),
            checked: checked.clone(),
        })
    }

    fn fits(&self, id: u64, body: &[u8]) -> bool {
        body.strip_prefix(&self.before_id[..])
            .and_then(|rest| rest.strip_suffix(&self.after_id[..]))
            .is_some_and(|middle| middle == id.to_string().as_bytes())
    }
}

fn is_stream(response: &Response<Incoming>) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

async fn drain(response: Response<Incoming>) -> Result<Bytes, String> {
    let body = response.into_body().collect().await.map_err(|error| format!("body: {error}"))?;
    Ok(body.to_bytes())
}

fn parse<'a, T: serde::Deserialize<'a>>(raw: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(raw).map_err(|error| format!("not the JSON expected: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_accepts_another_id_and_nothing_else() {
        let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":12,"result":{"tools":[]}}"#);
        let template = Template::new(12, &body, &Checked::default()).unwrap();
        assert!(template.fits(345, br#"{"jsonrpc":"2.0","id":345,"result":{"tools":[]}}"#));
        assert!(!template.fits(345, br#"{"jsonrpc":"2.0","id":346,"result":{"tools":[]}}"#));
        assert!(!template.fits(345, br#"{"jsonrpc":"2.0","id":345,"result":{"tools":[1]}}"#));
    }
}
