//! One session with an upstream: opened by a handshake, used by calls, ended by DELETE.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method as HttpMethod, Response, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use toolyard_model::{Ask, AskError, Back, BoxFuture, ClientKey, Greeting, Peer, Principal, Scope};
use toolyard_proto::{CallError, Id, Message, Method, Notification, Raw, Reason, RequestMessage, Revision};

use super::inbox;
use super::memory::Memory;
use super::owner::Owner;
use crate::asks::Asks;
use crate::events::Events;
use crate::http::client::AnswerReader;
use crate::http::connections::Arriving;
use crate::http::refusal::HttpRefusal;
use crate::http::upstream::{HttpUpstream, PROTOCOL_VERSION, SESSION_ID};
use crate::inflight::InFlight;
use crate::levels::SentLevel;
use crate::probe::{Offer, legacy_greeting};

/// How long the first call waits for the stream of unasked messages to open, so that no message during that call
/// is lost. Some servers send headers only with the first message, so the wait is short.
const INBOX_WAIT: Duration = Duration::from_millis(250);
/// How long a message without an answer may take.
pub(super) const ERRAND: Duration = Duration::from_secs(5);

pub(crate) struct UpstreamSession {
    pub(super) owner: Owner,
    /// The principal whose credentials its requests carry; `None` for the gateway's own.
    principal: Option<Principal>,
    pub(super) upstream: Arc<HttpUpstream>,
    pub(super) greeting: Greeting,
    pub(super) events: Events,
    pub(super) asks: Asks,
    pub(super) scope: Scope,
    pub(super) has_id: bool,
    post: HeaderMap,
    get: HeaderMap,
    pub(super) errands: mpsc::Sender<Errand>,
    /// Whether a task renews its subscriptions after a loss.
    pub(super) is_watched: AtomicBool,
    /// Whether everything from the session before it has been set up.
    pub(super) is_set_up: watch::Sender<bool>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) last: u64,
    pub(super) calls: InFlight<()>,
    pub(super) used: Instant,
    pub(super) memory: Memory,
    pub(super) sent_level: SentLevel,
    /// The server has answered that it offers no stream of unasked messages.
    pub(super) has_no_inbox: bool,
    pub(super) ended: bool,
}

/// A message for the upstream whose answer no caller waits for.
pub(crate) struct Errand {
    pub(super) session: Arc<UpstreamSession>,
    pub(super) message: Message,
}

/// The parts of a pool that its sessions need.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) upstream: &'a Arc<HttpUpstream>,
    pub(crate) events: &'a Events,
    pub(crate) scope: &'a Scope,
    pub(crate) errands: &'a mpsc::Sender<Errand>,
}

/// Why a session could not be opened.
pub(crate) enum OpenError {
    Call(CallError),
    Refused(HttpRefusal),
    Incompatible(Reason),
}

impl OpenError {
    pub(crate) fn to_call_error(&self, upstream: &HttpUpstream) -> CallError {
        let error = match self {
            Self::Call(error) => error.clone(),
            Self::Refused(refusal) => refusal.to_call_error(upstream),
            Self::Incompatible(reason) => CallError::unavailable(reason.clone()),
        };
        error.at(&upstream.name)
    }
}

impl UpstreamSession {
    /// Makes the handshake on behalf of `owner`, which is described by `offer`.
    pub(crate) async fn open(
        ground: Ground<'_>,
        owner: Owner,
        principal: Option<&Principal>,
        offer: &Offer,
    ) -> Result<Arc<Self>, OpenError> {
        let upstream = ground.upstream;
        let hello = Message::Request(RequestMessage {
            id: Id::string("yard-initialize"),
            method: Method::INITIALIZE,
            params: Some(offer.initialize_params(Revision::NEWEST_LEGACY).into()),
        });
        let sent = upstream.send(principal, HttpMethod::POST, upstream.post_headers(), hello.render()).await;
        let response = sent.map_err(OpenError::Call)?;
        if response.status() != StatusCode::OK {
            return Err(OpenError::Refused(HttpRefusal::read(response).await));
        }
        let id = response.headers().get(SESSION_ID).cloned();
        let peer = Peer::new(Arc::new(Unasked { events: ground.events.clone(), client: owner.client() }));
        let read = AnswerReader { upstream, peer: &peer, listens: false, id: None, client: None }
            .read(response)
            .await;
        let greeting = legacy_greeting(&upstream.name, read.map_err(OpenError::Call)?)
            .map_err(OpenError::Incompatible)?;
        let session = Arc::new(Self {
            principal: principal.cloned(),
            ..Self::new(ground, owner, greeting, id.as_ref())
        });
        let mut opening = Opening { session: Some(session.clone()), scope: ground.scope };
        session.begin().await.map_err(OpenError::Call)?;
        opening.session = None;
        Ok(session)
    }

    fn new(ground: Ground<'_>, owner: Owner, greeting: Greeting, id: Option<&HeaderValue>) -> Self {
        let scope = ground.scope.child();
        let complete = |mut headers: HeaderMap| {
            if let Some(id) = id {
                headers.insert(SESSION_ID, id.clone());
            }
            if greeting.revision >= Revision::V2025_06_18 {
                headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(greeting.revision.as_str()));
            }
            headers
        };
        Self {
            owner,
            principal: None,
            post: complete(ground.upstream.post_headers()),
            get: complete(ground.upstream.get_headers()),
            upstream: ground.upstream.clone(),
            events: ground.events.clone(),
            asks: Asks::new(&scope),
            scope,
            has_id: id.is_some(),
            errands: ground.errands.clone(),
            is_watched: AtomicBool::new(false),
            is_set_up: watch::Sender::new(true),
            state: Mutex::new(State {
                last: 0,
                calls: InFlight::default(),
                used: Instant::now(),
                memory: Memory::default(),
                sent_level: SentLevel::default(),
                has_no_inbox: false,
                ended: false,
            }),
            greeting,
        }
    }

    /// Sends `notifications/initialized`, and starts to listen.
    async fn begin(self: &Arc<Self>) -> Result<(), CallError> {
        self.deliver(&Message::Notification(Notification::new(Method::INITIALIZED, None))).await?;
        let (opened, has_opened) = tokio::sync::oneshot::channel();
        self.scope.spawn(inbox::run(self.clone(), opened));
        let _ = timeout(INBOX_WAIT, has_opened).await;
        Ok(())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn revision(&self) -> Revision {
        self.greeting.revision
    }

    pub(crate) fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    pub(super) fn has_inbox(&self) -> bool {
        !self.lock().has_no_inbox
    }

    pub(super) async fn post(&self, message: &Message) -> Result<Response<Arriving>, CallError> {
        self.upstream
            .send(self.principal.as_ref(), HttpMethod::POST, self.post.clone(), message.render())
            .await
    }

    pub(super) async fn get(&self, headers: HeaderMap) -> Result<Response<Arriving>, CallError> {
        self.upstream.send(self.principal.as_ref(), HttpMethod::GET, headers, Bytes::new()).await
    }

    /// Posts a message that has no answer.
    pub(super) async fn deliver(&self, message: &Message) -> Result<(), CallError> {
        let posted = timeout(ERRAND, self.post(message)).await;
        posted.map_err(|_| self.upstream.lost("it accepts no messages"))?.map(drop)
    }

    pub(super) fn get_headers(&self) -> HeaderMap {
        self.get.clone()
    }

    /// For how long it has been unused; `None` while it is in use.
    pub(super) fn idle(&self, now: Instant) -> Option<Duration> {
        let state = self.lock();
        (state.calls.len() == 0).then(|| now.duration_since(state.used))
    }

    /// Whether it may end after a long idle time: the gateway listens in its own session, and what a client
    /// has set up stays until the client disconnects.
    pub(super) fn may_end(&self) -> bool {
        match self.owner {
            Owner::Gateway => false,
            Owner::Client(_) => self.lock().memory.is_empty(),
            Owner::Shared { .. } => !self.lock().memory.has_subscribers(),
        }
    }

    /// No call may use it from now on.
    pub(super) fn retire(&self) {
        self.lock().ended = true;
        self.scope.cancel();
        // The session will no longer be set up, so no call may wait for that.
        self.is_set_up.send_replace(true);
    }

    /// Ends it in the background, in a task of `scope`, since its own scope is over by then.
    pub(super) fn say_goodbye(self: Arc<Self>, scope: &Scope) {
        self.retire();
        scope.spawn(async move { self.delete().await });
    }

    /// Ends the session at the upstream.
    pub(super) async fn delete(&self) {
        if self.has_id {
            let sent = self.upstream.send(
                self.principal.as_ref(),
                HttpMethod::DELETE,
                self.get_headers(),
                Bytes::new(),
            );
            let _ = timeout(ERRAND, sent).await;
        }
    }
}

/// A session that is not in the pool yet. The call that opens it may be cancelled before it is handed over.
struct Opening<'a> {
    session: Option<Arc<UpstreamSession>>,
    scope: &'a Scope,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            session.say_goodbye(self.scope);
        }
    }
}

/// Takes the upstream's messages during the handshake.
struct Unasked {
    events: Events,
    client: Option<ClientKey>,
}

impl Back for Unasked {
    fn notify(&self, notification: Notification) {
        self.events.notify(self.client.clone(), notification);
    }

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(async {
            Err(AskError::Unsupported("questions are refused until the handshake is complete".into()))
        })
    }
}
