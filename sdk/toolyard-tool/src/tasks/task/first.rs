//! A call that asks before it becomes a task: its questions are its answer, and the client calls again with
//! the replies. It becomes a task when those questions are answered, when it asks in another way, or when it
//! has not asked for a while; a call that ends before is answered like any other.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use toolyard_model::{Answer, AnswerBody};
use toolyard_proto::Raw;

use super::super::kept::KeptTasks;
use super::{Outcome, State, Task};

/// How long a call may go without a question before it becomes a task all the same.
const PATIENCE: Duration = Duration::from_secs(1);

/// The stages of a call that becomes a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stage {
    /// It runs, and has not asked yet.
    Call,
    /// It asks by its answer, or checks whether it has to.
    Asking,
    /// The client receives the task.
    Task,
}

/// A task that has not been announced to its client. Dropping it stops the task: no client can ask about it.
struct Unannounced {
    task: Arc<Task>,
    kept: Arc<KeptTasks>,
    is_announced: bool,
}

/// The answer to the call: that the task has `started`, or its earlier outcome.
pub(in crate::tasks) fn answer(
    task: Arc<Task>,
    kept: Arc<KeptTasks>,
    started: Raw,
) -> impl Future<Output = Answer> + Send + 'static {
    let unannounced = Unannounced { task, kept, is_announced: false };
    async move {
        let task = &unannounced.task;
        // A function that asks through its answer ends at once; one that still runs after another wait does other work.
        for may_begin in [|stage| stage == Stage::Call, |_| true] {
            if tokio::time::timeout(PATIENCE, task.settled()).await.is_ok() {
                break;
            }
            task.begin_if(may_begin);
        }
        if let Some(outcome) = task.settled().await {
            return outcome.into_answer().map(AnswerBody::ours);
        }
        unannounced.kept.add(task)?;
        task.store_first(&unannounced.kept).await?;
        unannounced.announced();
        Ok(AnswerBody::ours(started))
    }
}

impl Task {
    /// Whether questions are asked by answering the call. If so, it does not become a task until it is known
    /// whether they have to be asked.
    pub(crate) fn asks_by_answer(&self) -> bool {
        let mut state = self.state();
        if state.stage == Stage::Call {
            state.stage = Stage::Asking;
        }
        state.stage == Stage::Asking
    }

    /// Makes the call a task.
    pub(crate) fn begin(&self) {
        self.begin_if(|_| true);
    }

    /// Does nothing if it is a task already, or has ended.
    fn begin_if(&self, may_begin: impl FnOnce(Stage) -> bool) {
        self.change(|state| {
            let begins = state.stage != Stage::Task && state.outcome.is_none() && may_begin(state.stage);
            if begins {
                state.begin();
            }
            begins
        });
    }

    /// Waits until the call becomes a task, or ends without becoming one.
    async fn settled(&self) -> Option<Outcome> {
        loop {
            let seen = self.version();
            {
                let state = self.state();
                if state.stage == Stage::Task || state.outcome.is_some() {
                    return state.outcome.clone().filter(|_| state.stage != Stage::Task);
                }
            }
            if self.scope.unless_ended(self.changed_since(seen)).await.is_none() {
                return Some(Outcome::Cancelled);
            }
        }
    }
}

impl State {
    /// From now on it is a task, and the caller receives no more messages of it.
    pub(super) fn begin(&mut self) {
        self.stage = Stage::Task;
        self.call = None;
    }
}

impl Unannounced {
    fn announced(mut self) {
        self.is_announced = true;
    }
}

impl Drop for Unannounced {
    fn drop(&mut self) {
        if !self.is_announced {
            self.kept.forget(self.task.id());
            self.task.stop();
            self.task.remove_stored();
        }
    }
}
