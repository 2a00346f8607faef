//! What the caller sees while a model answers: partial text, and notes about waits.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolyard_tool::{Content, Context};

use crate::conversation::Piece;

/// Partial text is sent in pieces of at least this size, or after this time.
const LEAST_TEXT: usize = 512;
const LONGEST_WAIT: Duration = Duration::from_millis(200);

pub(crate) struct Progress {
    context: Context,
    state: Mutex<State>,
}

struct State {
    steps: u32,
    text: String,
    sent: Instant,
}

impl Progress {
    pub(crate) fn new(context: &Context) -> Self {
        let state = State { steps: 0, text: String::new(), sent: Instant::now() };
        Self { context: context.clone(), state: Mutex::new(state) }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// A message for the user.
    pub(crate) fn note(&self, message: impl Into<String>) {
        let step = {
            let mut state = self.state();
            state.steps += 1;
            state.steps
        };
        self.context.progress_with(step, None, message);
    }

    /// A part of the answer.
    pub(crate) fn piece(&self, piece: &Piece) {
        let ready = {
            let mut state = self.state();
            if let Piece::Text(text) = piece {
                state.text.push_str(text);
            }
            let is_due = state.text.len() >= LEAST_TEXT || state.sent.elapsed() >= LONGEST_WAIT;
            is_due.then(|| {
                state.sent = Instant::now();
                std::mem::take(&mut state.text)
            })
        };
        // An empty part still shows that the call is at work.
        if let Some(text) = ready {
            self.context.partial(Content::new().text(text));
        }
    }

    /// Sends what is left.
    pub(crate) fn flush(&self) {
        let text = std::mem::take(&mut self.state().text);
        if !text.is_empty() {
            self.context.partial(Content::new().text(text));
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
