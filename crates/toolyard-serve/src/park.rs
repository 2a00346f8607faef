//! Questions to a modern client in the middle of its call. A modern client cannot be sent a request, so the call is
//! parked: the client gets `input_required`, returns with the answers and a sealed state, and the same running call
//! continues. The steps of the call run once and keep their permits; number and duration of parked calls are limited.

mod asking_call;
mod questions;
mod seal;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use toolyard_model::peer::Back;
use toolyard_model::{Answer, AnswerBody, BoxFuture, Keys, Peer, Request, Scope};
use toolyard_proto::{CallError, Method, Params, Raw, Retry};

use super::endpoint::Endpoint;
use asking_call::AskingCall;
use questions::Questions;
use seal::{Binding, OpenedState, ParkId, Seal};

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
    call: AskingCall,
    /// Dropped when the client returns, so that the call no longer expires.
    _expiry: Owned,
}

/// Handles a modern request. If its handler asks the client a question, the call is parked, and the answer contains
/// the question.
pub(crate) fn handle(endpoint: &Arc<Endpoint>, request: Request, back: Arc<dyn Back>) -> BoxFuture<Answer> {
    if !may_ask(&request.method) {
        return endpoint.handler.handle(request, Peer::new(back));
    }
    let endpoint = endpoint.clone();
    match endpoint.park.own_state(&request.params) {
        Some(state) => Box::pin(async move { continue_parked(&endpoint, &request, &state, back).await }),
        None => Box::pin(run_or_park(endpoint, request, back)),
    }
}

/// Runs a call, and parks it if it asks its client.
async fn run_or_park(endpoint: Arc<Endpoint>, request: Request, back: Arc<dyn Back>) -> Answer {
    let origin = request.origin.clone();
    let method = request.method.clone();
    let params = request.params.as_raw().clone();
    let questions = Questions::new(origin.clone(), back);
    let peer = Peer::new(questions.clone());
    let mut call = endpoint.handler.handle(request, peer);
    let answered = poll_fn(|cx| {
        if let Poll::Ready(answer) = call.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        questions.poll_asked(cx).map(|()| None)
    });
    if let Some(answer) = answered.await {
        return answer;
    }
    let binding = Binding::of(&origin, &method, &params);
    let via = origin.called.clone().filter(|_| origin.is_relayed);
    AskingCall::start(&endpoint, call, questions, binding, via).wait_or_park(&endpoint).await
}

/// The methods whose answer may be a question.
fn may_ask(method: &Method) -> bool {
    matches!(method.as_str(), "tools/call" | "prompts/get" | "resources/read")
}

/// Continues a parked call whose client has returned with answers.
async fn continue_parked(
    endpoint: &Arc<Endpoint>,
    request: &Request,
    state: &str,
    back: Arc<dyn Back>,
) -> Answer {
    let responses = request.params.member("inputResponses").unwrap_or_else(Raw::empty_object);
    if !responses.is_object() {
        return Err(CallError::invalid_params("`inputResponses` must be an object"));
    }
    let call = endpoint.park.take(
        state,
        &Binding::of(&request.origin, &request.method, &request.params),
        &responses,
    )?;
    call.receive_answers(&responses, request, &back);
    call.wait_or_park(endpoint).await
}

impl Park {
    pub(crate) fn new(keys: Arc<Keys>, most: usize, time: Duration) -> Self {
        Self { seal: Seal::new(keys), most, time, calls: Mutex::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.calls().len()
    }

    /// The state that a request carries, if this gateway made it.
    fn own_state(&self, params: &Params) -> Option<String> {
        self.seal.own(&params.member("requestState")?)
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ParkId, Parked>> {
        self.calls.lock()
    }

    /// Parks a call and returns the `input_required` result by which the client continues it.
    fn keep(&self, endpoint: &Arc<Endpoint>, call: AskingCall) -> Answer {
        let expires = SystemTime::now() + self.time;
        let id = ParkId::random();
        let state = self.seal.seal(id, expires, call.binding(), call.via());
        let result = call.input_required(&state);
        let mut calls = self.calls();
        if calls.len() >= self.most {
            let mut error =
                CallError::limit("too many calls are waiting for their clients to answer; try again later");
            // The call was under way when it asked its question.
            error.retry = Retry::IfIdempotent;
            return Err(error);
        }
        let expiry = endpoint.ending.child();
        calls.insert(id, Parked { call, _expiry: Owned(expiry.clone()) });
        drop(calls);
        expiry.spawn(expire(endpoint.clone(), id));
        Ok(AnswerBody::ours(result))
    }

    /// Takes out the call of `state`, if it still exists and belongs to this client and to this request. A malformed
    /// answer does not end the call: it stays parked.
    fn take(&self, state: &str, binding: &Binding, responses: &Raw) -> Result<AskingCall, CallError> {
        let refused = |why: &str| {
            CallError::invalid_params(format!("this `requestState` {why}; make the call again without it"))
        };
        let OpenedState { run, id, expires, bound } =
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
        calls.get(&id).ok_or_else(gone)?.call.check(responses)?;
        calls.remove(&id).map(|parked| parked.call).ok_or_else(gone)
    }
}

/// Ends a call whose client has not returned in time.
async fn expire(endpoint: Arc<Endpoint>, id: ParkId) {
    tokio::time::sleep(endpoint.park.time).await;
    // `_expiry` owns this task, so it is kept until the task has finished.
    let parked = endpoint.park.calls().remove(&id);
    if let Some(Parked { call, _expiry }) = parked {
        call.give_up(WIND_UP).await;
    }
}

/// A scope that ends what runs in it when it is dropped.
struct Owned(Scope);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
