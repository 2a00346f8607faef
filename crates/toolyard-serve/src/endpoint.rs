//! The state that all listeners of one server share: the handler, the gate, the limits, and the legacy sessions.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use toolyard_model::{Control, Handler, Keys, Nodes, Pages, Scope};

use super::body_budget::BodyBudget;
use super::catch_panics::CatchPanics;
use super::legacy::sessions::Sessions;
use super::legacy::sse::EventClients;
use super::notify_limit::NotifyLimits;
use super::park::Park;
use super::public::PublicPages;
use super::ui_access::UiAccess;
use crate::admit::Gate;

/// How long sessions may take to be saved at the end.
const FILES: Duration = Duration::from_secs(5);

/// The limits and settings of an endpoint.
#[derive(Clone, Debug)]
pub struct Options {
    pub gate: Gate,
    /// Other nodes that hold sessions and parked calls of the same clients.
    pub nodes: Option<Arc<dyn Nodes>>,
    /// Pages and metadata that need no credentials.
    pub public_pages: Option<Arc<dyn PublicPages>>,
    /// Seals what clients carry for this endpoint.
    pub keys: Arc<Keys>,
    /// Host names accepted beside loopback.
    pub hosts: Vec<String>,
    /// Origins accepted beside those on loopback.
    pub origins: Vec<String>,
    pub connections: usize,
    pub body_limit: usize,
    /// How many bytes of request bodies may be in memory at once, over all connections.
    pub bodies_limit: usize,
    pub line_limit: usize,
    pub sessions: usize,
    pub session_idle: Duration,
    /// The folder of sessions, so that they survive the process. Without it they are not kept.
    pub session_folder: Option<PathBuf>,
    /// Calls under way at once in one session or stream connection.
    pub calls: usize,
    /// How long a client has to answer a question.
    pub ask_timeout: Duration,
    /// How many calls may wait for a modern client to come back with answers.
    pub parked: usize,
    /// How long a body may take to arrive, and a client to take what is written to it.
    pub patience: Duration,
    /// The silence after which an HTTP client is sent a keep-alive; an unanswered call then becomes an event stream.
    pub keep_alive: Duration,
    /// How long an `initialize` or `resources/subscribe` waits for the handler.
    pub handshake_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            gate: Gate::open(),
            nodes: None,
            public_pages: None,
            keys: Arc::default(),
            hosts: Vec::new(),
            origins: Vec::new(),
            connections: 5_000,
            body_limit: 16 * 1024 * 1024,
            bodies_limit: 256 * 1024 * 1024,
            line_limit: toolyard_proto::codec::MAX_MESSAGE,
            sessions: 10_000,
            session_idle: Duration::from_hours(1),
            session_folder: None,
            calls: 1_000,
            parked: 1_000,
            ask_timeout: Duration::from_mins(10),
            patience: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            handshake_timeout: Duration::from_mins(1),
        }
    }
}

/// The counts of what was dropped or refused, for metrics.
#[derive(Debug, Default)]
pub struct Counts {
    /// Notifications that a client was too slow to take.
    pub dropped: AtomicU64,
    /// Connections beyond the limit.
    pub refused: AtomicU64,
    /// Answers to questions that were not asked, or that came too late.
    pub unmatched: AtomicU64,
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The server that clients connect to, through any listener.
pub struct Endpoint {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) options: Options,
    pub(crate) control: Option<Arc<dyn Control>>,
    pub(crate) pages: Option<Arc<dyn Pages>>,
    pub(crate) ui_access: UiAccess,
    pub(crate) sessions: Sessions,
    pub(crate) event_clients: EventClients,
    /// The scope of connections without a listener's scope.
    pub(crate) scope: Scope,
    pub(crate) counts: Arc<Counts>,
    pub(crate) park: Park,
    pub(crate) bodies: Arc<BodyBudget>,
    /// The limits of modern clients over HTTP, which have neither a session nor a connection.
    pub(crate) notify_limits: NotifyLimits,
    /// Cancelled by [`Endpoint::end`]; listeners and streams finish what they can and close.
    pub(crate) ending: Scope,
    /// How many connections there are.
    pub(crate) open: watch::Sender<usize>,
}

/// Numbers for connections and requests, unique in the process: several endpoints may share a handler.
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Endpoint {
    /// An endpoint whose tasks live in `scope`.
    pub fn new(handler: Arc<dyn Handler>, options: Options, scope: &Scope) -> Self {
        let ending = scope.child();
        let sessions = Sessions::new(
            options.sessions,
            options.session_idle,
            options.session_folder.clone(),
            scope.child(),
        );
        let counts = Arc::default();
        let open = watch::Sender::new(0);
        let park = Park::new(options.keys.clone(), options.parked, options.ask_timeout);
        let event_clients = EventClients::default();
        let scope = scope.clone();
        let bodies = BodyBudget::new(options.bodies_limit);
        let control = None;
        let pages = None;
        let notify_limits = NotifyLimits::default();
        let ui_access = UiAccess::new(options.keys.clone());
        Self {
            handler: Arc::new(CatchPanics(handler)),
            options,
            control,
            pages,
            ui_access,
            sessions,
            event_clients,
            scope,
            counts,
            park,
            bodies,
            notify_limits,
            ending,
            open,
        }
    }

    /// Mounts the control API under `/api/v1`.
    #[must_use]
    pub fn with_control(mut self, control: Arc<dyn Control>) -> Self {
        self.control = Some(control);
        self
    }

    /// Serves these files at `/ui`.
    #[must_use]
    pub fn with_pages(mut self, pages: Arc<dyn Pages>) -> Self {
        self.pages = Some(pages);
        self
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many legacy sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// How many calls wait for a modern client to come back with answers.
    pub fn parked(&self) -> usize {
        self.park.len()
    }

    pub fn gate(&self) -> &Gate {
        &self.options.gate
    }

    /// Ends sessions and streams cleanly: listeners get their last message, connections close after the answer
    /// they are busy with. Waits for that, but not longer than `at_most`.
    pub async fn end(&self, at_most: Duration) {
        self.ending.cancel();
        let deadline = tokio::time::Instant::now() + at_most;
        // A session's calls finish before the session ends. Open streams are not waited for: they have no end of their own.
        while self.sessions.have_calls() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Files that take longer than this are not waited for.
        let _ = tokio::time::timeout(FILES, self.sessions.end_all()).await;
        // Clients that have not disconnected by then are not waited for.
        let _ = tokio::time::timeout_at(deadline, self.empty()).await;
    }

    /// Waits until no client is connected.
    async fn empty(&self) {
        // The sender exists as long as `self`, so waiting cannot fail.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }

    /// Waits until a client is connected.
    pub async fn visited(&self) {
        let _ = self.open.subscribe().wait_for(|open| *open > 0).await;
    }

    /// Waits until no client has been connected for `grace`.
    pub async fn deserted(&self, grace: Duration) {
        loop {
            self.empty().await;
            if tokio::time::timeout(grace, self.visited()).await.is_err() {
                return;
            }
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Counts an open connection for as long as it lives.
pub(crate) struct OpenConnection(Arc<Endpoint>);

impl OpenConnection {
    pub(crate) fn new(endpoint: &Arc<Endpoint>) -> Self {
        endpoint.open.send_modify(|open| *open += 1);
        Self(endpoint.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}
