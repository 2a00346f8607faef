//! The questions of a running call, and where its notifications go while the client is away or back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use toolyard_proto::{CallError, Method, Notification, Raw};

use toolyard_model::peer::{Ask, AskError, Back};
use toolyard_model::{BoxFuture, Origin};

/// Questions that one call may have open at once.
const MOST: usize = 32;

pub(super) struct Questions {
    origin: Arc<Origin>,
    next: AtomicU64,
    state: Mutex<QuestionState>,
}

struct QuestionState {
    open: VecDeque<Question>,
    waker: Option<Waker>,
    /// The receiver of notifications; none while the client is away.
    back: Option<Arc<dyn Back>>,
    /// The progress token of the request that is open now; the first one's needs no change.
    token: Token,
    /// The newest progress that came while the client was away.
    progress: Option<Notification>,
}

enum Token {
    AsSent,
    Replaced(Option<Raw>),
}

impl Token {
    /// Progress under the token of the request that is open; without a token it is not wanted.
    fn put_into(&self, progress: Notification) -> Option<Notification> {
        match self {
            Self::AsSent => Some(progress),
            Self::Replaced(token) => {
                let params = progress.params?.with("progressToken", token.as_ref()?);
                Some(Notification::new(progress.method, params))
            }
        }
    }
}

struct Question {
    key: String,
    ask: Ask,
    reply: oneshot::Sender<Result<Raw, AskError>>,
}

impl Questions {
    pub(super) fn new(origin: Arc<Origin>, back: Arc<dyn Back>) -> Arc<Self> {
        let state = QuestionState {
            open: VecDeque::new(),
            waker: None,
            back: Some(back),
            token: Token::AsSent,
            progress: None,
        };
        Arc::new(Self { origin, next: AtomicU64::new(1), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, QuestionState> {
        self.state.lock()
    }

    /// Ready when a question waits.
    pub(super) fn poll_asked(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.open.iter().any(|question| !question.reply.is_closed()) {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Returns the open questions as `inputRequests`, without abandoned ones. From now on the client is away.
    pub(super) fn leave(&self) -> Raw {
        let mut state = self.state();
        state.open.retain(|question| !question.reply.is_closed());
        state.back = None;
        state.open.iter().fold(Raw::empty_object(), |all, question| {
            let mut request =
                Raw::empty_object().with("method", &Raw::from_serialize(&question.ask.method.as_str()));
            let params = question.ask.params.clone().unwrap_or_else(Raw::empty_object);
            request = request.with("params", &params.without(&["_meta", "task", "elicitationId"]));
            all.with(&question.key, &request)
        })
    }

    /// Every answer is an object; the upstream that asked checks its content.
    pub(super) fn check(&self, responses: &Raw) -> Result<(), CallError> {
        let malformed =
            |question: &&Question| responses.member(&question.key).is_some_and(|given| !given.is_object());
        match self.state().open.iter().find(malformed) {
            Some(bad) => {
                Err(CallError::invalid_params(format!("`inputResponses.{}` must be an object", bad.key)))
            }
            None => Ok(()),
        }
    }

    /// The client's answers. Unknown keys are ignored, and unanswered questions stay open.
    pub(super) fn answer(&self, responses: &Raw) {
        let mut state = self.state();
        for question in std::mem::take(&mut state.open) {
            match responses.member(&question.key) {
                // The upstream may have abandoned the question in the meantime.
                Some(response) => drop(question.reply.send(Ok(response))),
                None => state.open.push_back(question),
            }
        }
    }

    /// Connects the call to the request with which the client has returned.
    pub(super) fn attach(&self, back: &Arc<dyn Back>, token: Option<Raw>) {
        let mut state = self.state();
        state.token = Token::Replaced(token);
        state.back = Some(back.clone());
        let waiting = state.progress.take().and_then(|progress| state.token.put_into(progress));
        drop(state);
        if let Some(progress) = waiting {
            back.notify(progress);
        }
    }

    /// No answer will arrive.
    pub(super) fn give_up(&self) {
        for question in std::mem::take(&mut self.state().open) {
            let _ = question.reply.send(Err(AskError::Timeout));
        }
    }
}

impl Back for Questions {
    fn notify(&self, notification: Notification) {
        let mut state = self.state();
        let is_progress = notification.method == Method::PROGRESS;
        let Some(back) = state.back.clone() else {
            if is_progress {
                state.progress = Some(notification);
            }
            return;
        };
        let notification = if is_progress { state.token.put_into(notification) } else { Some(notification) };
        drop(state);
        if let Some(notification) = notification {
            back.notify(notification);
        }
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        if let Some(refused) = ask.refusal(&self.origin.capabilities) {
            return Box::pin(async { Err(refused) });
        }
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        if state.open.len() >= MOST {
            return Box::pin(async {
                Err(AskError::Unsupported("too many questions are open in this call".into()))
            });
        }
        let key = format!("ask{}", self.next.fetch_add(1, Ordering::Relaxed));
        state.open.push_back(Question { key, ask, reply });
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        Box::pin(async { answer.await.unwrap_or(Err(AskError::Gone)) })
    }
}
