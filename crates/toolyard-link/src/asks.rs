//! Questions of upstreams that are being answered: each in a task of its own, until the answer is sent or the upstream
//! takes the question back. Their number is bounded.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use toolyard_proto::error::code;
use toolyard_proto::{Id, Message, Method, Notification, Raw, RequestMessage, Response, RpcError};

use toolyard_model::peer::{Ask, AskError};
use toolyard_model::{BoxFuture, Scope};

/// How many questions of one channel may be open: as many as calls may wait for their clients, since all requests
/// without a session share one.
const MAX_OPEN: usize = 1_000;
/// How many refusals may be on their way; beyond that, an upstream that does not read gets none.
const MAX_REFUSALS: usize = 100;

/// Carries the answer to a question back to the upstream that asked.
pub(crate) type Reply = Box<dyn FnOnce(Message) -> BoxFuture<()> + Send>;

#[derive(Clone)]
pub(crate) struct Asks {
    scope: Scope,
    open: Arc<Mutex<HashMap<Id, CancellationToken>>>,
    /// An id is free again before its answer can have been read; a place only when the answer has been sent.
    places: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
}

/// The decision about an upstream's request.
pub(crate) enum Verdict {
    /// The answer is known at once.
    Answer(Result<Raw, Raw>),
    Ask(BoxFuture<Result<Raw, AskError>>),
}

impl Verdict {
    /// Puts the question now; its answer is waited for later.
    fn put(mut self) -> Self {
        let Self::Ask(ask) = &mut self else { return self };
        match ask.now_or_never() {
            Some(answered) => Self::Ask(Box::pin(std::future::ready(answered))),
            None => self,
        }
    }

    /// The answer to `ping`.
    pub(crate) fn pong() -> Self {
        Self::Answer(Ok(Raw::empty_object()))
    }

    /// Several clients are calling, and the question does not name one of them.
    pub(crate) fn ambiguous() -> Self {
        Self::Answer(Err(ambiguity()))
    }
}

/// The error of a question that does not name one of the clients that are calling.
pub(crate) fn ambiguity() -> Raw {
    let why = "calls of several clients are under way on this connection, so the client that this request is for is \
               unknown; calls from now on get connections of their own";
    RpcError::new(code::INTERNAL, why).to_raw()
}

pub(crate) fn to_ask(request: &RequestMessage) -> Ask {
    Ask { method: request.method.clone(), params: request.params.as_deref().cloned() }
}

impl Asks {
    pub(crate) fn new(scope: &Scope) -> Self {
        let (places, refusals) = (Semaphore::new(MAX_OPEN), Semaphore::new(MAX_REFUSALS));
        let (places, refusals) = (Arc::new(places), Arc::new(refusals));
        Self { scope: scope.clone(), open: Arc::default(), places, refusals }
    }

    /// Answers an upstream's request, in a task of its own. The question is passed on before the upstream's next
    /// message is read, so that the client receives everything in the order in which it was sent.
    pub(crate) fn answer(&self, request: RequestMessage, verdict: Verdict, reply: Reply) {
        let RequestMessage { id, method, .. } = request;
        let Some((place, taken_back)) = self.open(&id) else { return self.refuse(id, reply) };
        let verdict = verdict.put();
        let asks = self.clone();
        self.scope.spawn(async move {
            let outcome = tokio::select! {
                outcome = outcome(&method, verdict) => Some(outcome),
                () = taken_back.cancelled() => None,
            };
            asks.close(&id);
            if let Some(outcome) = outcome {
                reply(Message::Response(Response { id: Some(id), outcome })).await;
            }
            drop(place);
        });
    }

    fn refuse(&self, id: Id, reply: Reply) {
        let Ok(place) = self.refusals.clone().try_acquire_owned() else { return };
        let busy = RpcError::new(code::INTERNAL, "too many requests are open, or one with this id");
        let response = Response { id: Some(id), outcome: Err(busy.to_raw()) };
        self.scope.spawn(async move {
            reply(Message::Response(response)).await;
            drop(place);
        });
    }

    fn open(&self, id: &Id) -> Option<(OwnedSemaphorePermit, CancellationToken)> {
        let mut open = self.open.lock();
        if open.contains_key(id) {
            return None;
        }
        let place = self.places.clone().try_acquire_owned().ok()?;
        let token = CancellationToken::new();
        open.insert(id.clone(), token.clone());
        Some((place, token))
    }

    fn close(&self, id: &Id) -> Option<CancellationToken> {
        self.open.lock().remove(id)
    }

    /// The upstream takes a question back (`notifications/cancelled`). Returns whether it was one of these.
    pub(crate) fn take_back(&self, notification: &Notification) -> bool {
        let id = notification.params.as_ref().and_then(|params| params.member("requestId"));
        let token = id.and_then(Id::from_raw).and_then(|id| self.close(&id));
        token.inspect(CancellationToken::cancel).is_some()
    }
}

async fn outcome(method: &Method, verdict: Verdict) -> Result<Raw, Raw> {
    match verdict {
        Verdict::Answer(outcome) => outcome,
        Verdict::Ask(ask) => ask.await.or_else(|error| without_answer(method, error)),
    }
}

/// The message that the upstream receives if there is no answer. Only elicitation has a result for that case.
fn without_answer(method: &Method, error: AskError) -> Result<Raw, Raw> {
    match error {
        AskError::Reported(error) => Err(error),
        AskError::Gone | AskError::Timeout if *method == Method::ELICIT => {
            Ok(serde_json::json!({ "action": "cancel" }).into())
        }
        AskError::Unsupported(why) => Err(RpcError::new(code::METHOD_NOT_FOUND, why).to_raw()),
        AskError::Gone | AskError::Timeout => Err(RpcError::new(code::INTERNAL, error.to_string()).to_raw()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_is_put_before_the_next_message_is_read() {
        let asks = Asks::new(&Scope::new());
        let put = Arc::new(Mutex::new(Vec::new()));
        for number in 1..=3 {
            let put = put.clone();
            let ask = async move {
                put.lock().push(number);
                std::future::pending().await
            };
            let request = RequestMessage { id: Id::number(number), method: Method::ELICIT, params: None };
            asks.answer(request, Verdict::Ask(Box::pin(ask)), Box::new(|_| Box::pin(async {})));
        }
        assert_eq!(*put.lock(), [1, 2, 3]);
    }
}
