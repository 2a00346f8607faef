//! One call that asks its client: it runs in a task of its own from the first question on, so that it continues
//! while the client is away.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use toolyard_model::peer::Back;
use toolyard_model::{Answer, BoxFuture, Request};
use toolyard_proto::{CallError, Raw};

use super::Owned;
use super::questions::Questions;
use super::seal::Binding;
use crate::endpoint::Endpoint;

/// Questions that arrive within this time are sent together.
const GATHER: Duration = Duration::from_millis(15);

/// A call that has asked its client a question, with its running task.
pub(super) struct AskingCall {
    questions: Arc<Questions>,
    done: oneshot::Receiver<Answer>,
    binding: Binding,
    /// The gateway that the client called, if it is another one.
    via: Option<Arc<str>>,
    /// Dropping this ends the call.
    _task: Owned,
}

impl AskingCall {
    pub(super) fn start(
        endpoint: &Arc<Endpoint>,
        call: BoxFuture<Answer>,
        questions: Arc<Questions>,
        binding: Binding,
        via: Option<Arc<str>>,
    ) -> Self {
        let (finish, done) = oneshot::channel();
        let task = endpoint.ending.child();
        task.spawn(async move {
            // The receiver is gone only if the client has disconnected.
            let _ = finish.send(call.await);
        });
        Self { questions, done, binding, via, _task: Owned(task) }
    }

    pub(super) fn binding(&self) -> &Binding {
        &self.binding
    }

    pub(super) fn via(&self) -> Option<&str> {
        self.via.as_deref()
    }

    /// Waits until the call has ended, or has asked a question and is parked.
    pub(super) async fn wait_or_park(mut self, endpoint: &Arc<Endpoint>) -> Answer {
        tokio::select! {
            biased;
            answer = &mut self.done => return settled(answer),
            () = poll_fn(|cx| self.questions.poll_asked(cx)) => {}
        }
        tokio::select! {
            biased;
            answer = &mut self.done => settled(answer),
            () = tokio::time::sleep(GATHER) => endpoint.park.keep(endpoint, self),
        }
    }

    /// Whether these can be the answers to the questions.
    pub(super) fn check(&self, responses: &Raw) -> Result<(), CallError> {
        self.questions.check(responses)
    }

    /// The client's answers, and its new request to send notifications on.
    pub(super) fn receive_answers(&self, responses: &Raw, request: &Request, back: &Arc<dyn Back>) {
        self.questions.attach(back, request.params.at(&["_meta", "progressToken"]));
        self.questions.answer(responses);
    }

    pub(super) fn input_required(&self, state: &str) -> Raw {
        Raw::from(serde_json::json!({ "resultType": "input_required" }))
            .with("inputRequests", &self.questions.leave())
            .with("requestState", &Raw::from_serialize(&state))
    }

    /// Answers every question with "no answer" and gives the call some time to end by itself.
    pub(super) async fn give_up(self, at_most: Duration) {
        self.questions.give_up();
        let _ = tokio::time::timeout(at_most, self.done).await;
    }
}

fn settled(answer: Result<Answer, oneshot::error::RecvError>) -> Answer {
    answer.unwrap_or_else(|_| Err(CallError::internal("the call was ended by the shutdown of the gateway")))
}
