//! A client at some door, and a client in memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};
use toolyard_model::{AnswerBody, Ask, AskError, Back, BoxFuture, Connected, LinkRequest, Origin, Peer};
use toolyard_proto::modern::{RequestMeta, stamp_request};
use toolyard_proto::{Id, Method, Notification, Params, Raw, Revision};

use super::Example;

pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
/// Opens a door to an example and connects as a client of a revision.
pub(crate) type Opening = fn(&'static Example, Revision) -> Later<'static, Box<dyn Client>>;

/// Sends requests and returns results; errors are returned as `{ "error": … }`.
pub(crate) trait Client {
    fn call<'a>(&'a mut self, method: &'a str, params: Value) -> Later<'a, Raw>;
}

/// Every client can show forms to its user, and the user accepts all of them.
fn capabilities() -> Value {
    json!({ "elicitation": {} })
}

/// What the user enters.
pub(crate) fn entered() -> Value {
    json!({ "action": "accept", "content": { "sure": true } })
}

/// The answer to a question of the server; `None` if the message is not a question.
pub(crate) fn reply_to(message: &Raw) -> Option<Value> {
    let (method, id) = (message.member("method")?.as_string()?, message.member("id")?);
    assert_eq!(method, "elicitation/create", "nothing else is asked");
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": entered() }))
}

/// `params` as a client of `revision` sends them. Where legacy clients send `task`, later ones declare support for
/// tasks.
pub(crate) fn params_of(revision: Revision, params: &Value) -> Raw {
    if !revision.is_modern() {
        return params.clone().into();
    }
    let (mut params, mut capabilities) = (params.clone(), capabilities());
    let wants_task = params.as_object_mut().unwrap().remove("task").is_some();
    if wants_task || params.get("taskId").is_some() {
        capabilities["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
    }
    let params = Raw::from(params);
    let meta = RequestMeta {
        revision,
        capabilities: capabilities.into(),
        client_info: Some(json!({ "name": "test", "version": "1" }).into()),
        log_level: None,
    };
    stamp_request(Some(&params), &meta)
}

/// The first message of a legacy client.
pub(crate) fn initialize(revision: Revision) -> Value {
    let info = json!({ "name": "test", "version": "1" });
    json!({ "protocolVersion": revision.as_str(), "capabilities": capabilities(), "clientInfo": info })
}

/// The result in a response, or its error.
pub(crate) fn outcome(response: &Raw) -> Raw {
    let error = || Raw::empty_object().with("error", &response.member("error").unwrap());
    response.member("result").unwrap_or_else(error)
}

pub(crate) fn memory(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let set = Arc::new((example.tools)());
        Box::new(Memory { connected: set.connect(), revision }) as Box<dyn Client>
    })
}

struct Memory {
    connected: Connected,
    revision: Revision,
}

struct User;

impl Back for User {
    fn notify(&self, _: Notification) {}

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(async { Ok(entered().into()) })
    }
}

impl Client for Memory {
    fn call<'a>(&'a mut self, method: &'a str, params: Value) -> Later<'a, Raw> {
        Box::pin(async move {
            let params: Params = params_of(self.revision, &params).into();
            let meta = RequestMeta::read(&params).unwrap();
            let request = LinkRequest::new(
                Origin::gateway(meta.capabilities, Raw::empty_object()),
                Id::number(1),
                Method::new(method),
                params,
            );
            match self.connected.link.call(request, Peer::new(Arc::new(User))).await {
                Ok(AnswerBody::Whole(result, _)) => result,
                Ok(AnswerBody::Stream(_)) => panic!("no stream was requested"),
                Err(error) => Raw::empty_object().with("error", &error.to_raw()),
            }
        })
    }
}
