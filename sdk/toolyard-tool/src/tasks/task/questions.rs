//! The questions of a task, and how the answers come back: with an update by the client that polls the task, or
//! from the client that waits for its result.

use std::sync::Arc;

use tokio::sync::oneshot;
use toolyard_model::{Ask, AskError, BoxFuture};
use toolyard_proto::Raw;

use super::{State, Task};

/// A question that waits for its answer, and its way back.
type Asking = BoxFuture<Result<Raw, AskError>>;

/// A question of a task.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    number: usize,
    /// Unique within the task, also over time: an answer that arrives twice must
    /// not count for a question that the client has not seen.
    pub(super) key: String,
    pub(super) ask: Ask,
    reply: oneshot::Sender<Result<Raw, AskError>>,
    /// Whether a client that waits for the result is being asked.
    is_put: bool,
}

/// A question that is being asked; another client that waits for the result takes over when this is dropped.
pub(in crate::tasks) struct Putting {
    task: Arc<Task>,
    number: usize,
    pub(in crate::tasks) ask: Ask,
}

impl Task {
    /// Answers to questions, by their keys; unknown keys are ignored.
    pub(in crate::tasks) fn take_answers(&self, answers: Option<&Raw>) {
        let Some(answers) = answers else { return };
        self.change(|state| {
            let (answered, open): (Vec<_>, _) =
                state.questions.drain(..).partition(|one| answers.member(&one.key).is_some());
            state.questions = open;
            let is_any = state.past.take_answers(answers) || !answered.is_empty();
            for question in answered {
                if let Some(answer) = answers.member(&question.key) {
                    state.past.answered(&question.key, &question.ask, &answer);
                    // The task may have given up waiting.
                    let _ = question.reply.send(Ok(answer));
                }
            }
            is_any
        });
    }

    /// The first question that is not being asked yet.
    pub(in crate::tasks) fn put_next(self: &Arc<Self>) -> Option<Putting> {
        let mut state = self.state();
        let question = state.questions.iter_mut().find(|one| !one.is_put)?;
        question.is_put = true;
        Some(Putting { task: self.clone(), number: question.number, ask: question.ask.clone() })
    }

    fn asks(&self, number: usize) -> bool {
        self.state().questions.iter().any(|one| one.number == number)
    }

    /// Asks questions together, each under its name if that is still free. Only a task
    /// can be asked about, so the call becomes one now.
    pub(crate) fn ask_all(&self, asks: impl IntoIterator<Item = (Option<String>, Ask)>) -> Vec<Asking> {
        let mut asking = Vec::new();
        self.change(|state| {
            state.begin();
            for (name, ask) in asks {
                let (number, key) = (state.keys.len(), state.free_key(name));
                if let Some(answer) = state.past.answer(&key, &ask) {
                    asking.push(Box::pin(async { Ok(answer) }) as Asking);
                    continue;
                }
                let (reply, answer) = oneshot::channel();
                state.questions.push(OpenQuestion { number, key, ask, reply, is_put: false });
                asking.push(Box::pin(async { answer.await.unwrap_or(Err(AskError::Gone)) }) as Asking);
            }
            true
        });
        asking
    }
}

impl State {
    /// The name if it was never used, else a similar one.
    fn free_key(&mut self, name: Option<String>) -> String {
        let is_free = |key: &String| !self.keys.contains(key);
        let like = name.clone().unwrap_or_else(|| "question".into());
        let mut others = (self.keys.len() + 1..).map(|number| format!("{like}-{number}"));
        let key = name.filter(is_free).or_else(|| others.find(is_free)).unwrap_or_default();
        self.keys.insert(key.clone());
        key
    }
}

impl Putting {
    pub(in crate::tasks) fn take_answer(self, answer: Result<Raw, AskError>) {
        self.task.change(|state| {
            let Some(at) = state.questions.iter().position(|one| one.number == self.number) else {
                return false;
            };
            let question = state.questions.remove(at);
            if let Ok(answer) = &answer {
                state.past.answered(&question.key, &question.ask, answer);
            }
            // The task may have given up waiting.
            let _ = question.reply.send(answer);
            true
        });
    }

    /// Waits until the answer is no longer needed: the task is over, or another client has answered.
    pub(in crate::tasks) async fn settled(&self) {
        let mut seen = self.task.version();
        while self.task.asks(self.number) {
            seen = self.task.changed_since(seen).await;
        }
    }
}

impl Drop for Putting {
    fn drop(&mut self) {
        let mut is_open = false;
        for question in self.task.state().questions.iter_mut().filter(|one| one.number == self.number) {
            question.is_put = false;
            is_open = true;
        }
        if is_open {
            self.task.version.send_modify(|version| *version += 1);
        }
    }
}
