//! A receiver of traces by OTLP over HTTP, in the binary form that all exporters have. It keeps every span.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use toolyard_model::Scope;

/// A span as it was received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    pub service: String,
    pub trace: String,
    pub span: String,
    pub parent: Option<String>,
    pub name: String,
    pub kind: &'static str,
    pub start: u64,
    pub end: u64,
    pub attributes: Map<String, Value>,
    /// The names of its events.
    pub events: Vec<String>,
    pub is_error: bool,
}

impl Span {
    pub fn to_json(&self) -> Value {
        json!({
            "service": self.service, "trace": self.trace, "span": self.span, "parent": self.parent,
            "name": self.name, "kind": self.kind, "start": self.start, "end": self.end,
            "attributes": self.attributes, "events": self.events, "error": self.is_error,
        })
    }
}

/// What is done with each request: its spans, or why it cannot be read.
pub type Take = Arc<dyn Fn(Result<Vec<Span>, &'static str>) + Send + Sync>;

/// Serves a receiver on a free port of loopback, and returns where it is.
pub async fn serve(take: Take, scope: &Scope) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let connections = scope.child();
    scope.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let take = take.clone();
            let service = service_fn(move |request| answer(request, take.clone()));
            connections.spawn(async move {
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Ok(address)
}

async fn answer(request: Request<Incoming>, take: Take) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_for_traces = request.method() == Method::POST && request.uri().path() == "/v1/traces";
    let is_binary =
        request.headers().get("content-type").is_some_and(|kind| kind == "application/x-protobuf");
    let read = match request.into_body().collect().await {
        _ if !is_for_traces || !is_binary => Err("not a POST of traces in binary form"),
        Ok(body) => spans(&body.to_bytes()).ok_or("not an ExportTraceServiceRequest"),
        Err(_) => Err("the body did not arrive"),
    };
    let status = if read.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    take(read);
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/x-protobuf"));
    Ok(response)
}

/// A receiver that keeps what it gets in memory.
#[derive(Clone, Debug, Default)]
pub struct Received(Arc<Mutex<Vec<Span>>>);

impl Received {
    pub fn all(&self) -> Vec<Span> {
        self.0.lock().clone()
    }

    /// For [`serve`]. A request that cannot be read is left out, and its sender is answered with an error.
    pub fn take(&self) -> Take {
        let kept = self.0.clone();
        Arc::new(move |spans| {
            kept.lock().extend(spans.unwrap_or_default());
        })
    }
}

/// The spans of an `ExportTraceServiceRequest`; nothing if it is not one.
pub fn spans(request: &[u8]) -> Option<Vec<Span>> {
    let mut spans = Vec::new();
    for resource_spans in fields(request)?.inner(1) {
        let resource_spans = fields(resource_spans)?;
        let mut service = String::new();
        for resource in resource_spans.inner(1) {
            let attributes = attributes(&fields(resource)?, 1)?;
            let name = attributes.get("service.name").and_then(Value::as_str);
            name.unwrap_or_default().clone_into(&mut service);
        }
        for scope_spans in resource_spans.inner(2) {
            for one in fields(scope_spans)?.inner(2) {
                spans.push(span(one, &service)?);
            }
        }
    }
    Some(spans)
}

fn span(bytes: &[u8], service: &str) -> Option<Span> {
    let fields = fields(bytes)?;
    let hex = |number| fields.inner(number).last().map(|id| HEXLOWER.encode(id)).filter(|id| !id.is_empty());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let mut events = Vec::new();
    for event in fields.inner(11) {
        events.push(text(self::fields(event)?.inner(2).last()?)?);
    }
    let mut is_error = false;
    for status in fields.inner(15) {
        is_error |= self::fields(status)?.number(3) == Some(2);
    }
    let kinds = ["unspecified", "internal", "server", "client", "producer", "consumer"];
    Some(Span {
        service: service.to_owned(),
        trace: hex(1).filter(|id| id.len() == 32)?,
        span: hex(2).filter(|id| id.len() == 16)?,
        parent: hex(4),
        name: text(fields.inner(5).last()?)?,
        kind: kinds.get(usize::try_from(fields.number(6).unwrap_or(0)).ok()?)?,
        start: fields.number(7)?,
        end: fields.number(8)?,
        attributes: attributes(&fields, 9)?,
        events,
        is_error,
    })
}

fn attributes(message: &Fields<'_>, number: u64) -> Option<Map<String, Value>> {
    let mut all = Map::new();
    for pair in message.inner(number) {
        let pair = fields(pair)?;
        let key = String::from_utf8(pair.inner(1).last()?.to_vec()).ok()?;
        let value = fields(pair.inner(2).last().unwrap_or_default())?;
        let text = value.inner(1).last().map(|text| json!(String::from_utf8_lossy(text)));
        let number = || value.number(3).or_else(|| value.number(2)).map(|number| json!(number));
        all.insert(key, text.or_else(number).unwrap_or_default());
    }
    Some(all)
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

struct Fields<'a>(Vec<(u64, Field<'a>)>);

impl<'a> Fields<'a> {
    fn inner(&self, number: u64) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(own, field)| match field {
            Field::Bytes(bytes) if *own == number => Some(*bytes),
            _ => None,
        })
    }

    fn number(&self, number: u64) -> Option<u64> {
        self.0.iter().rev().find_map(|(own, field)| match field {
            Field::Number(value) if *own == number => Some(*value),
            _ => None,
        })
    }
}

/// The fields of a message; nothing if it is cut off or has a kind of field that no message has.
fn fields(mut rest: &[u8]) -> Option<Fields<'_>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut rest)?),
            1 => Field::Number(u64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Field::Bytes(take(&mut rest, length)?)
            }
            5 => Field::Number(u64::from(u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?))),
            _ => return None,
        };
        all.push((tag >> 3, field));
    }
    Some(Fields(all))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = *take(rest, 1)? else { return None };
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
