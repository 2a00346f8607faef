//! Questions to a modern client in the middle of its call. It cannot be sent a request, so the call is parked:
//! the client gets `input_required` and comes back with the answers and a sealed state, and the same running
//! call continues. Steps of the call run once, everything they hold stays held, and everything is bounded.

mod conversation;
mod questions;
mod seal;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use toolyard_model::peer::Back;
use toolyard_model::{Answer, AnswerBody, BoxFuture, Keys, Peer, Request, Scope};
use toolyard_proto::{CallError, Method, Params, Raw};

use super::endpoint::Endpoint;
use conversation::{Conversation, begin};
use seal::{Binding, Opened, ParkId, Seal};

/// How long an expired call may take to end after its questions were answered with "no answer".
const WIND_UP: Duration = Duration::from_secs(5);

/// The calls that wait for their clients to come back.
pub(crate) struct Park {
    seal: Seal,
    most: usize,
    time: Duration,
    calls: Mutex<HashMap<ParkId, Parked>>,
}

struct Parked {
    conversation: Conversation,
    /// Dropped when the client is back, so that the call does not expire any more.
    _expiry: Owned,
}

/// Handles a modern request; if its handler asks the client something, the call is parked and the answer states
/// what is asked.
pub(crate) fn handle(endpoint: &Arc<Endpoint>, request: Request, back: Arc<dyn Back>) -> BoxFuture<Answer> {
    if !may_ask(&request.method) {
        return endpoint.handler.handle(request, Peer::new(back));
    }
    let endpoint = endpoint.clone();
    match endpoint.park.own_state(&request.params) {
        Some(state) => Box::pin(async move { come_back(&endpoint, &request, &state, back).await }),
        None => Box::pin(begin(endpoint, request, back)),
    }
}

/// The methods whose answer may be a question.
fn may_ask(method: &Method) -> bool {
    matches!(method.as_str(), "tools/call" | "prompts/get" | "resources/read")
}

/// The client of a parked call is back with answers.
async fn come_back(endpoint: &Arc<Endpoint>, request: &Request, state: &str, back: Arc<dyn Back>) -> Answer {
    let responses = request.params.member("inputResponses").unwrap_or_else(Raw::empty_object);
    if !responses.is_object() {
        return Err(CallError::invalid_params("`inputResponses` must be an object"));
    }
    let conversation = endpoint.park.take(
        state,
        &Binding::of(&request.origin, &request.method, &request.params),
        &responses,
    )?;
    conversation.receive_answers(&responses, request, &back);
    conversation.go_on(endpoint).await
}

impl Park {
    pub(crate) fn new(keys: Arc<Keys>, most: usize, time: Duration) -> Self {
        Self { seal: Seal::new(keys), most, time, calls: Mutex::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.calls().len()
    }

    /// The state that a request carries, if we made it.
    fn own_state(&self, params: &Params) -> Option<String> {
        self.seal.own(&params.member("requestState")?)
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ParkId, Parked>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parks a call and returns the `input_required` result by which the client continues it.
    fn keep(&self, endpoint: &Arc<Endpoint>, conversation: Conversation) -> Answer {
        let expires = SystemTime::now() + self.time;
        let id = ParkId::random();
        let state = self.seal.seal(id, expires, conversation.binding());
        let result = conversation.input_required(&state);
        let mut calls = self.calls();
        if calls.len() >= self.most {
            return Err(CallError::limit(
                "too many calls are waiting for their clients to answer; try again later",
            ));
        }
        let expiry = endpoint.ending.child();
        calls.insert(id, Parked { conversation, _expiry: Owned(expiry.clone()) });
        drop(calls);
        expiry.spawn(expire(endpoint.clone(), id));
        Ok(AnswerBody::ours(result))
    }

    /// The call of `state`, if it belongs to this client and to this very request, and still exists. A malformed
    /// answer does not end the call: it continues to wait.
    fn take(&self, state: &str, binding: &Binding, responses: &Raw) -> Result<Conversation, CallError> {
        let refused = |why: &str| {
            CallError::invalid_params(format!("this `requestState` {why}; make the call again without it"))
        };
        let Opened { run, id, expires, bound } =
            self.seal.open(state).ok_or_else(|| refused("is not valid"))?;
        if bound != *binding {
            return Err(refused("belongs to another request"));
        }
        if expires < SystemTime::now() {
            return Err(refused("has expired"));
        }
        if run != self.seal.run() {
            return Err(refused(
                "is from before the gateway was restarted, and its call ended with the restart",
            ));
        }
        let gone = || refused("was used already or has expired");
        let mut calls = self.calls();
        calls.get(&id).ok_or_else(gone)?.conversation.check(responses)?;
        calls.remove(&id).map(|parked| parked.conversation).ok_or_else(gone)
    }
}

/// Ends a call whose client never came back.
async fn expire(endpoint: Arc<Endpoint>, id: ParkId) {
    tokio::time::sleep(endpoint.park.time).await;
    // The expiry of the call is this very task, which continues to its end.
    let parked = endpoint.park.calls().remove(&id);
    if let Some(Parked { conversation, _expiry }) = parked {
        conversation.give_up(WIND_UP).await;
    }
}

/// A scope that ends what runs in it when it is dropped.
struct Owned(Scope);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
