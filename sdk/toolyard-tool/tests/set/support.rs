//! A client in memory: it sends requests, answers questions from a script, and records notifications.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolyard_model::{
    Answer, AnswerBody, Ask, AskError, Back, BoxFuture, ClientKey, Handler, Origin, Peer, Principal, Request,
    View,
};
use toolyard_proto::{CallError, Id, Method, Notification, Raw, Revision};

#[derive(Clone)]
pub(crate) struct Client {
    origin: Arc<Origin>,
    side: Arc<Side>,
}

#[derive(Default)]
struct Side {
    /// Questions are read and never answered.
    is_silent: bool,
    answers: HashMap<&'static str, Value>,
    notifications: Mutex<Vec<Value>>,
    asked: Mutex<Vec<Value>>,
}

impl Client {
    pub(crate) fn new(revision: Revision, capabilities: Value) -> Self {
        Self::named("ann", revision, capabilities)
    }

    pub(crate) fn named(principal: &str, revision: Revision, capabilities: Value) -> Self {
        let origin =
            Origin::new(View::Everything, Principal::token(principal), ClientKey::Connection(1), revision)
                .with_capabilities(capabilities.into())
                .with_client_info(Some(json!({ "name": "tester", "version": "7" }).into()));
        Self { origin: Arc::new(origin), side: Arc::default() }
    }

    /// The same on another connection.
    pub(crate) fn on_connection(mut self, number: u64) -> Self {
        Arc::get_mut(&mut self.origin).unwrap().client = ClientKey::Connection(number);
        self
    }

    pub(crate) fn newest() -> Self {
        Self::new(Revision::NEWEST, json!({}))
    }

    /// Answers questions of `method` with `result`; others are refused.
    pub(crate) fn answering(self, method: &'static str, result: Value) -> Self {
        let mut answers = self.side.answers.clone();
        answers.insert(method, result);
        Self { origin: self.origin, side: Arc::new(Side { answers, ..Side::default() }) }
    }

    /// Reads questions and never answers them.
    pub(crate) fn silent(self) -> Self {
        Self { origin: self.origin, side: Arc::new(Side { is_silent: true, ..Side::default() }) }
    }

    pub(crate) fn start(&self, set: &dyn Handler, method: &str, params: Value) -> BoxFuture<Answer> {
        let request = Request::new(self.origin.clone(), Id::number(1), Method::new(method), params);
        set.handle(request, Peer::new(self.side.clone()))
    }

    pub(crate) async fn request(
        &self,
        set: &dyn Handler,
        method: &str,
        params: Value,
    ) -> Result<Value, CallError> {
        match self.start(set, method, params).await? {
            AnswerBody::Whole(result, _) => Ok(result.read().unwrap()),
            AnswerBody::Stream(_) => panic!("no stream was requested"),
        }
    }

    /// Calls a tool; the answer without the protocol's stamps.
    pub(crate) async fn call(&self, set: &dyn Handler, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } });
        let mut result = self.request(set, "tools/call", params).await.unwrap();
        let fields = result.as_object_mut().unwrap();
        fields.remove("resultType");
        fields.remove("_meta");
        result
    }

    /// Notifications so far, as `[method, params]`.
    pub(crate) fn notifications(&self) -> Vec<Value> {
        self.side.notifications.lock().clone()
    }

    /// Questions so far, as `[method, params]`.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.side.asked.lock().clone()
    }
}

impl Back for Side {
    fn notify(&self, notification: Notification) {
        self.notifications.lock().push(json!([notification.method.as_str(), notification.params]));
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        let answer = self.answers.get(ask.method.as_str()).cloned().map(Raw::from);
        self.asked.lock().push(json!([ask.method.as_str(), ask.params]));
        if self.is_silent {
            return Box::pin(std::future::pending());
        }
        Box::pin(async { answer.ok_or_else(|| AskError::Unsupported("it cannot be asked".into())) })
    }
}

/// The text of an answer.
pub(crate) fn text(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().unwrap()
}
