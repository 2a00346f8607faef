//! What the caller sees while a model answers: partial text, and notes about waits.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use toolyard_tool::{Content, Context};

use crate::conversation::Piece;

/// Partial text is sent in pieces of at least this size, or after this time.
const LEAST_TEXT: usize = 512;
const LONGEST_WAIT: Duration = Duration::from_millis(200);
/// After so long without a part of an answer, and as often from then on, a note shows that the call waits. A provider
/// may be silent for longer than the gateway lets a call be.
const WAIT_NOTE_INTERVAL: Duration = Duration::from_secs(30);

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
    /// When the last part of an answer came.
    received: Instant,
}

impl Progress {
    pub(crate) fn new(context: &Context) -> Self {
        let now = Instant::now();
        let state = State { steps: 0, shows_text: true, text: String::new(), sent: now, received: now };
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

    /// Waits for an answer of a model, and shows that the call is at work while nothing comes.
    pub(crate) async fn during<T>(&self, model: &str, answer: impl Future<Output = T>) -> T {
        self.state().received = Instant::now();
        let waiting = async {
            loop {
                sleep(WAIT_NOTE_INTERVAL).await;
                let silence = self.state().received.elapsed();
                if silence >= WAIT_NOTE_INTERVAL {
                    self.note(format!("waiting for `{model}`: nothing received for {} s", silence.as_secs()));
                }
            }
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            () = waiting => unreachable!("it waits until the answer is there"),
        }
    }

    /// A part of the answer.
    pub(crate) fn piece(&self, piece: &Piece) {
        let ready = {
            let mut state = self.state();
            state.received = Instant::now();
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
