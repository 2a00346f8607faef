//! The answers to a batch on a stream: collected, and written as one array.

use std::sync::Arc;

use parking_lot::Mutex;
use toolyard_model::{BoxFuture, Scope};

use super::line::Line;
use crate::calls::Outlet;
use crate::outbox::Weight;
use crate::reply::{Rendered, array};

pub(super) struct BatchOutlet {
    line: Arc<Line>,
    scope: Scope,
    state: Mutex<BatchState>,
}

struct BatchState {
    answers: Vec<Rendered>,
    outstanding: usize,
}

impl BatchOutlet {
    pub(super) fn new(line: Arc<Line>, scope: Scope, outstanding: usize) -> Arc<Self> {
        Arc::new(Self { line, scope, state: Mutex::new(BatchState { answers: Vec::new(), outstanding }) })
    }

    /// All answers, once the last call has ended.
    fn add(&self, answer: Option<Rendered>) -> Option<Rendered> {
        let mut state = self.state.lock();
        state.answers.extend(answer);
        state.outstanding = state.outstanding.saturating_sub(1);
        let complete = state.outstanding == 0 && !state.answers.is_empty();
        complete.then(|| Rendered::whole(array(std::mem::take(&mut state.answers))))
    }
}

impl Outlet for BatchOutlet {
    fn tell(&self, message: Rendered, weight: Weight) {
        self.line.tell(message, weight);
    }

    fn ask(&self, message: Rendered) -> BoxFuture<bool> {
        self.line.ask(message)
    }

    fn answer(&self, message: Rendered) -> BoxFuture<()> {
        match self.add(Some(message)) {
            Some(all) => self.line.answer(all),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn no_answer(&self) {
        if let Some(all) = self.add(None) {
            self.scope.spawn(self.line.answer(all));
        }
    }
}
