//! Questions of upstreams: which client answers one that belongs to no call, and how many may be open on links of
//! clients' own. A call that waits for the answer to a question holds its link, so a client that never answers must
//! not hold the links of all others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolyard_model::{Ask, AskError, Back, BoxFuture, Origin, Peer};
use toolyard_proto::{Method, Notification, Raw};

use super::Upstream;
use super::pool::NoQuestion;

/// How long the client whose call started a process may take to send its roots.
const ROOTS_WAIT: Duration = Duration::from_secs(10);

/// The way back of a call on a link of its own. It counts the questions that go through it.
pub(super) struct CountedPeer {
    pub(super) peer: Peer,
    pub(super) upstream: Arc<Upstream>,
    /// The number of the link in the pool.
    pub(super) number: u64,
    /// Set when a question is refused because too many are open, and cleared when a later one is not.
    pub(super) was_refused: Arc<AtomicBool>,
}

impl Back for CountedPeer {
    fn notify(&self, notification: Notification) {
        self.peer.notify(notification);
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        let cancelled = match self.upstream.links.pool.begin_question(self.number) {
            Ok(cancelled) => {
                self.was_refused.store(false, Ordering::Relaxed);
                cancelled
            }
            Err(why) => {
                self.was_refused.fetch_or(matches!(why, NoQuestion::TooMany), Ordering::Relaxed);
                return Box::pin(async move { Err(AskError::Unsupported(why.to_string())) });
            }
        };
        let (answer, open) = (self.peer.ask(ask), OpenQuestion::new(&self.upstream, self.number));
        Box::pin(async move {
            let _open = open;
            tokio::select! {
                answer = answer => answer,
                () = cancelled.cancelled() => Err(AskError::Timeout),
            }
        })
    }

    fn hang_up(&self, come_back_after: Duration) {
        self.peer.hang_up(come_back_after);
    }
}

/// Counts a question until it is answered, cancelled or dropped.
struct OpenQuestion {
    upstream: Arc<Upstream>,
    number: u64,
}

impl OpenQuestion {
    fn new(upstream: &Arc<Upstream>, number: u64) -> Self {
        Self { upstream: upstream.clone(), number }
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.upstream.links.pool.end_question(self.number);
    }
}

/// The call that started a process. A server may ask for the roots right after the handshake, before that call has
/// reached it; then the client of that call is asked.
#[derive(Clone)]
pub(super) struct Starter {
    capabilities: Raw,
    /// Gone when the call has ended, so that nothing keeps its stream open.
    peer: Weak<Peer>,
}

impl Starter {
    pub(super) fn new(origin: &Origin, peer: &Arc<Peer>) -> Self {
        Self { capabilities: origin.capabilities.clone(), peer: Arc::downgrade(peer) }
    }
}

/// Answers a question that belongs to no call, without waiting for the answer here.
pub(super) fn answer(
    upstream: &Arc<Upstream>,
    starter: Option<&Starter>,
    ask: Ask,
    reply: oneshot::Sender<Result<Raw, AskError>>,
) {
    let starter = starter
        .filter(|starter| ask.method == Method::ROOTS_LIST && ask.refusal(&starter.capabilities).is_none());
    let own = upstream.answer_outside_call(&ask);
    let peer = starter.and_then(|starter| starter.peer.upgrade());
    let Some(peer) = peer else { return drop(reply.send(own)) };
    upstream.life.later(Box::pin(async move {
        // The call may have ended by now; then the roots of the config are the answer.
        let answer = tokio::time::timeout(ROOTS_WAIT, peer.ask(ask)).await;
        let _ = reply.send(answer.ok().and_then(Result::ok).map_or(own, Ok));
    }));
}

/// The questions that are open on one link.
#[derive(Default)]
pub(super) struct OpenQuestions {
    count: usize,
    /// The number of the question, so that the oldest can be found.
    since: u64,
    cancel: CancellationToken,
}

impl OpenQuestions {
    pub(super) fn is_open(&self) -> bool {
        self.count > 0
    }

    pub(super) fn since(&self) -> u64 {
        self.since
    }

    pub(super) fn begin(&mut self, since: u64) -> CancellationToken {
        if self.count == 0 {
            *self = Self { count: 0, since, cancel: CancellationToken::new() };
        }
        self.count += 1;
        self.cancel.clone()
    }

    pub(super) fn end(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    pub(super) fn cancel(&self) {
        self.cancel.cancel();
    }
}
