//! A client at some door, and the one that needs no door.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};
use toolyard_proto::modern::{RequestMeta, stamp_request};
use toolyard_proto::{Id, Method, Raw, Revision};
use toolyard_transport::{AnswerBody, Connected, LinkRequest, Origin, Peer};

use super::Example;

pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
/// Opens a door to an example and comes in as a client of a revision.
pub(crate) type Opening = fn(&'static Example, Revision) -> Later<'static, Box<dyn Client>>;

/// Somebody who sends requests and gets results; errors are given as `{ "error": … }`.
pub(crate) trait Client {
    fn call<'a>(&'a mut self, method: &'a str, params: Value) -> Later<'a, Raw>;
}

/// `params` as a client of `revision` sends them.
pub(crate) fn params_of(revision: Revision, params: &Value) -> Raw {
    let params = Raw::from(params.clone());
    if !revision.is_modern() {
        return params;
    }
    let meta = RequestMeta {
        revision,
        capabilities: Raw::empty_object(),
        client_info: Some(json!({ "name": "test", "version": "1" }).into()),
        log_level: None,
    };
    stamp_request(Some(&params), &meta)
}

/// What an older client sends first.
pub(crate) fn initialize(revision: Revision) -> Value {
    let info = json!({ "name": "test", "version": "1" });
    json!({ "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": info })
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

impl Client for Memory {
    fn call<'a>(&'a mut self, method: &'a str, params: Value) -> Later<'a, Raw> {
        Box::pin(async move {
            let request = LinkRequest {
                origin: Origin::gateway(Raw::empty_object(), Raw::empty_object()),
                id: Id::number(1),
                method: Method::new(method),
                params: params_of(self.revision, &params).into(),
                headers: None,
                name: None,
                relay: false,
            };
            match self.connected.link.call(request, Peer::nobody()).await {
                Ok(AnswerBody::Whole(result, _)) => result,
                Ok(AnswerBody::Stream(_)) => panic!("nobody asked for a stream"),
                Err(error) => Raw::empty_object().with("error", &error.to_raw()),
            }
        })
    }
}
