//! What the caller sees while a model answers: partial text, and notes about waits.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolyard_tool::{Content, Context};

use crate::conversation::Piece;

/// Partial text is sent in pieces of at least this size, or after this time.
const LEAST_TEXT: usize = 512;
const LONGEST_WAIT: Duration = Duration::from_millis(200);

#[derive(Clone)]
pub(crate) struct Progress {
    context: Context,
    state: Arc<Mutex<State>>,
}

struct State {
    steps: u32,
    shows_text: bool,
    text: String,
    sent: Instant,
}

impl Progress {
    pub(crate) fn new(context: &Context) -> Self {
        let state = State { steps: 0, shows_text: true, text: String::new(), sent: Instant::now() };
        Self { context: context.clone(), state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Whether parts of the answer are sent. Without, empty parts still show that the call is at work.
    pub(crate) fn show_text(&self, shows_text: bool) {
        self.state().shows_text = shows_text;
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
            if let (Piece::Text(text), true) = (piece, state.shows_text) {
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

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }
}
