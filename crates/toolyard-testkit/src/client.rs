//! A client in memory: calls a [`Handler`] as a client of a certain revision, answers its questions from a
//! script, and keeps every notification.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use toolyard_model::{
    AnswerBody, Ask, AskError, Back, BoxFuture, ClientKey, Handler, Origin, Peer, Principal, Request, View,
};
use toolyard_proto::{CallError, Id, Method, Notification, Raw, Revision};

/// One client with its side of the way back.
#[derive(Clone, Debug)]
pub struct Client {
    origin: Arc<Origin>,
    side: Arc<Side>,
}

#[derive(Debug, Default)]
struct Side {
    answers: HashMap<&'static str, Value>,
    received: Mutex<Received>,
}

#[derive(Debug, Default)]
struct Received {
    notifications: Vec<Notification>,
    asks: Vec<Ask>,
    hung_up: Option<Duration>,
}

impl Client {
    /// A client on a stream connection that declares `capabilities`.
    pub fn new(revision: Revision, capabilities: Value) -> Self {
        let origin = Origin::new(View::Everything, Principal::local(), ClientKey::Connection(1), revision)
            .with_capabilities(capabilities.into());
        Self { origin: Arc::new(origin), side: Arc::default() }
    }

    /// Answers questions of `method` with `result`; others are refused.
    #[must_use]
    pub fn answering(mut self, method: &'static str, result: Value) -> Self {
        let mut answers = self.side.answers.clone();
        answers.insert(method, result);
        self.side = Arc::new(Side { answers, ..Side::default() });
        self
    }

    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Sends a request and waits for the whole result.
    pub async fn call(&self, handler: &dyn Handler, method: &str, params: Value) -> Result<Value, CallError> {
        let request = Request::new(self.origin.clone(), Id::number(1), Method::new(method), params);
        match handler.handle(request, Peer::new(self.side.clone())).await? {
            AnswerBody::Whole(result, _) => {
                result.read().map_err(|error| CallError::bad_answer(error.to_string()))
            }
            AnswerBody::Stream(_) => Err(CallError::bad_answer("a stream although none was allowed")),
        }
    }

    /// What the handler has sent so far, oldest first, as `[method, params]`.
    pub fn notifications(&self) -> Vec<Value> {
        let open = |n: &Notification| json!([n.method.as_str(), n.params]);
        self.side.received().notifications.iter().map(open).collect()
    }

    /// The questions so far, as `[method, params]`.
    pub fn asks(&self) -> Vec<Value> {
        self.side.received().asks.iter().map(|ask| json!([ask.method.as_str(), ask.params])).collect()
    }

    /// When the handler wanted the client back after hanging up, if it did.
    pub fn hung_up(&self) -> Option<Duration> {
        self.side.received().hung_up
    }
}

impl Side {
    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock()
    }
}

impl Back for Side {
    fn notify(&self, notification: Notification) {
        self.received().notifications.push(notification);
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        let answer = self.answers.get(ask.method.as_str()).cloned().map(Raw::from);
        self.received().asks.push(ask);
        Box::pin(async { answer.ok_or_else(|| AskError::Unsupported("not in the script".into())) })
    }

    fn hang_up(&self, come_back_after: Duration) {
        self.received().hung_up = Some(come_back_after);
    }
}
