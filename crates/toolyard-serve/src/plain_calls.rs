//! A listener for programs that do not speak MCP: a path is a tool, the posted object its arguments, and the answer its
//! text. Each call passes the steps of a client's call at `/mcp`: credentials, rules, limits and records are the same.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{HeaderMap, Method as HttpMethod, Request as HttpRequest, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};
use toolyard_model::{AnswerBody, Origin, Peer, Request, Scope, View};
use toolyard_proto::{Id, Method, Raw, Revision};

use super::ServeBody;
use super::accept::{Admission, Room, accept_all};
use super::admit::{Admitted, Challenge, ConnectionCredential, Denial};
use super::endpoint::{Endpoint, OpenConnection, next_number};
use super::head::{Fields, Guard};
use super::reply::{self, HttpResponse};
use super::write_timeout::WriteTimeout;
use super::{post, request};

/// How long the head of a request may take, and an idle connection stays open.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// How long connections may finish their answers when the endpoint ends.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// The path of the view that calls are made in.
const VIEW: &str = "/mcp";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const PROCESS_TIME: HeaderName = HeaderName::from_static("x-process-time");

/// A path, and the tool that a request to it calls.
#[derive(Clone, Copy, Debug)]
pub struct PlainCall {
    pub path: &'static str,
    /// As `/mcp` lists it.
    pub tool: &'static str,
}

/// Accepts connections until `scope` or the endpoint ends.
pub async fn serve_plain_calls(
    listener: TcpListener,
    endpoint: Arc<Endpoint>,
    calls: &'static [PlainCall],
    scope: Scope,
) {
    let guard = Guard::of(&listener, &endpoint.options);
    let room = Room::new(&endpoint);
    let plain = Arc::new(PlainListener { endpoint, guard, calls });
    accept_all(listener, &plain.endpoint, &scope, |stream| {
        // A connection beyond the limit is closed.
        if let Admission::Accepted(permit) = room.enter(&plain.endpoint.counts) {
            scope.spawn(plain.clone().serve(stream, permit));
        }
    })
    .await;
}

struct PlainListener {
    endpoint: Arc<Endpoint>,
    guard: Guard,
    calls: &'static [PlainCall],
}

/// Why there is no answer: the status, and the reason.
struct CallRefusal(StatusCode, String);

impl PlainListener {
    async fn serve(self: Arc<Self>, stream: TcpStream, _permit: OwnedSemaphorePermit) {
        let _open = OpenConnection::new(&self.endpoint);
        let credential = ConnectionCredential::of(stream.peer_addr().ok().map(|address| address.ip()));
        let service = service_fn(|request| self.respond(request, &credential));
        let stream = WriteTimeout::new(stream, self.endpoint.options.patience);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let finished = tokio::select! {
            biased;
            () = self.endpoint.ending.ended() => {
                connection.as_mut().graceful_shutdown();
                timeout(LAST_ANSWERS, connection).await.unwrap_or(Ok(()))
            }
            finished = &mut connection => finished,
        };
        if let Err(error) = finished {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    async fn respond(
        &self,
        request: HttpRequest<Incoming>,
        credential: &ConnectionCredential,
    ) -> Result<HttpResponse, Infallible> {
        let begun = Instant::now();
        let id = request_id(request.headers());
        let mut response = match self.answer(request, credential).await {
            Ok(answer) => whole(StatusCode::OK, &answer),
            Err(CallRefusal(status, detail)) => whole(status, &json!({ "detail": detail })),
        };
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, id);
        if let Ok(seconds) = HeaderValue::try_from(format!("{:.3}", begun.elapsed().as_secs_f64())) {
            headers.insert(PROCESS_TIME, seconds);
        }
        Ok(response)
    }

    async fn answer(
        &self,
        request: HttpRequest<Incoming>,
        credential: &ConnectionCredential,
    ) -> Result<Value, CallRefusal> {
        let (head, body) = request.into_parts();
        if let Some(reason) = self.guard.refusal(head.uri.authority(), Fields::Map(&head.headers)) {
            return Err(CallRefusal(StatusCode::FORBIDDEN, reason.into()));
        }
        let path = head.uri.path();
        if path == "/health" {
            return Ok(json!({ "status": "ok" }));
        }
        let Some(call) = self.calls.iter().find(|call| call.path == path) else {
            return Err(CallRefusal(StatusCode::NOT_FOUND, format!("there is nothing at {path}")));
        };
        if head.method != HttpMethod::POST {
            return Err(CallRefusal(StatusCode::METHOD_NOT_ALLOWED, "send the arguments with POST".into()));
        }
        let admitted = self.admit(&head.headers, credential).await?;
        // The reservation is held until the request is answered.
        let (body, _reservation) =
            post::read(&self.endpoint, &head.headers, body).await.map_err(|refusal| {
                CallRefusal(
                    refusal.status(),
                    "expected a JSON object within the limits of size and time".into(),
                )
            })?;
        self.call(call.tool, admitted, &body).await
    }

    async fn admit(
        &self,
        headers: &HeaderMap,
        credential: &ConnectionCredential,
    ) -> Result<Admitted, CallRefusal> {
        let gate = &self.endpoint.options.gate;
        let authorization = Fields::Map(headers).once(&AUTHORIZATION).unwrap_or_default();
        let mut admitted = gate.admit_on(credential, VIEW, authorization);
        if let (Err(Denial::Unverified(token)), Some(header)) = (&admitted, authorization) {
            gate.verify_on(credential, header, token).await;
            admitted = gate.admit_on(credential, VIEW, authorization);
        }
        admitted.map_err(|denial| match denial {
            Denial::Answer(Challenge { status, text, .. }) => CallRefusal(status, text.into()),
            Denial::Unverified(_) => CallRefusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "the token cannot be checked now; try again".into(),
            ),
        })
    }

    async fn call(&self, tool: &str, admitted: Admitted, body: &Bytes) -> Result<Value, CallRefusal> {
        let arguments = serde_json::from_slice::<Value>(body).ok().filter(Value::is_object);
        let Some(arguments) = arguments else {
            return Err(CallRefusal(StatusCode::UNPROCESSABLE_ENTITY, "expected a JSON object".into()));
        };
        let is_proven = admitted.proves_user();
        let client = request::client_key(&admitted);
        let origin = Origin::new(View::Everything, admitted.principal, client, Revision::NEWEST)
            .with_place(is_proven, None)
            .with_relayed(admitted.is_relayed)
            .with_transport(admitted.transport);
        // Progress is not sent to the client, but it keeps the call from being taken for a silent one.
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": 0 } });
        let id = Id::string(&format!("plain-{}", next_number()));
        let request = Request::new(Arc::new(origin), id, Method::TOOLS_CALL, Raw::from(params));
        let failed = |detail: String| CallRefusal(StatusCode::INTERNAL_SERVER_ERROR, detail);
        match self.endpoint.handler.handle(request, Peer::none()).await {
            Ok(AnswerBody::Whole(result, _)) => answer_of(&result.read().unwrap_or_default()).map_err(failed),
            Ok(AnswerBody::Stream(_)) => Err(failed("a whole answer was asked for".into())),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// The text of a result, or the reason why there is none.
fn answer_of(result: &Value) -> Result<Value, String> {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let text = texts.join("\n");
    if result["isError"] == true || blocks.is_empty() { Err(text) } else { Ok(json!({ "response": text })) }
}

/// The client's own, if it is short and plain.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_plain = |value: &&HeaderValue| value.len() <= 128 && value.to_str().is_ok();
    let own = headers.get(&REQUEST_ID).filter(is_plain).cloned();
    own.unwrap_or_else(|| HeaderValue::from(next_number()))
}

fn whole(status: StatusCode, value: &Value) -> HttpResponse {
    let mut response = reply::json(ServeBody::full(value.to_string()));
    *response.status_mut() = status;
    response
}
