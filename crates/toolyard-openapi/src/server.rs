//! A handler that answers clients with the operations of a description.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Map, Value, json};
use toolyard_link::http::send_once;
use toolyard_model::{Answer, AnswerBody, BoxFuture, ClientKey, Handler, Origin, Peer, Request};
use toolyard_proto::modern::{stamp_cache, stamp_result};
use toolyard_proto::{CallError, Method, Notification, Raw, Revision};

use crate::{Description, Operation, answer};

/// How long a service may take to answer.
const LIMIT: Duration = Duration::from_mins(1);
/// How many bytes of an answer are read.
const MOST_BYTES: usize = 8 << 20;
/// How long clients may keep the list, which does not change while the program runs.
const TTL_MS: u64 = 300_000;

/// The tools of one description, at one address.
#[derive(Debug)]
pub struct OpenApiServer {
    operations: Vec<Arc<Operation>>,
    list: Raw,
    info: Raw,
    base: Arc<str>,
    headers: Arc<HeaderMap>,
}

impl OpenApiServer {
    /// `base` is the address of the service, `headers` go with every request.
    pub fn new(description: Description, base: &str, headers: HeaderMap) -> Self {
        let tools: Vec<&Value> =
            description.operations.iter().map(|operation| &operation.definition).collect();
        let list = json!({ "tools": tools }).into();
        let info = json!({
            "name": "toolyard-openapi", "title": description.title, "version": description.version,
        });
        Self {
            list,
            info: info.into(),
            operations: description.operations.into_iter().map(Arc::new).collect(),
            base: base.trim_end_matches('/').into(),
            headers: Arc::new(headers),
        }
    }

    fn answer(&self, request: &Request, peer: Peer) -> Result<BoxFuture<Answer>, CallError> {
        match request.method.as_str() {
            "server/discover" => {
                let versions: Vec<&str> =
                    Revision::ALL.iter().rev().map(|revision| revision.as_str()).collect();
                let discovered = json!({ "supportedVersions": versions, "capabilities": { "tools": {} } });
                Ok(self.lasting(&discovered.into()))
            }
            "tools/list" => Ok(self.lasting(&self.list)),
            "tools/call" => self.call(request),
            // Nothing changes; a listener waits until it leaves.
            "subscriptions/listen" => Ok(Box::pin(async move {
                peer.notify(acknowledged());
                std::future::pending().await
            })),
            other => Err(CallError::unknown_method(other)),
        }
    }

    fn lasting(&self, result: &Raw) -> BoxFuture<Answer> {
        let result = stamp_cache(&stamp_result(result, Some(&self.info)), TTL_MS, "public");
        Box::pin(async { Ok(AnswerBody::ours(result)) })
    }

    fn call(&self, request: &Request) -> Result<BoxFuture<Answer>, CallError> {
        let name = request.params.member("name").and_then(|name| name.as_string()).unwrap_or_default();
        let operation = self.operations.iter().find(|operation| operation.name == name).cloned();
        let operation =
            operation.ok_or_else(|| CallError::invalid_params(format!("unknown tool: {name}")))?;
        let arguments: Map<String, Value> =
            request.params.member("arguments").and_then(|all| all.read().ok()).unwrap_or_default();
        let base = self.base.clone();
        let headers = self.headers.clone();
        let info = self.info.clone();
        Ok(Box::pin(async move {
            let result = match operation.request(&base, &headers, &arguments) {
                Ok(request) => sent(request, &base).await,
                Err(why) => failed(&why),
            };
            Ok(AnswerBody::ours(stamp_result(&result.into(), Some(&info))))
        }))
    }
}

async fn sent(request: http::Request<bytes::Bytes>, base: &str) -> Value {
    let uri = request.uri().to_string();
    match send_once(request, MOST_BYTES, LIMIT).await {
        Ok(response) => answer::result(&response, &uri),
        Err(why) => failed(&format!("the service at {base} did not answer: {why}")),
    }
}

fn failed(why: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": why }], "isError": true })
}

fn acknowledged() -> Notification {
    let params = json!({ "notifications": {} });
    Notification::new(Method::ACKNOWLEDGED, Raw::from(params))
}

impl Handler for OpenApiServer {
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer> {
        self.answer(&request, peer).unwrap_or_else(|error| Box::pin(async { Err(error) }))
    }

    fn notice(&self, _: &Arc<Origin>, _: Notification) {}

    fn ended(&self, _: &ClientKey) {}
}
