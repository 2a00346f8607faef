//! How an app gets the seat of its upstream: it connects by itself, or it listens and the gateway connects to it. In
//! the second case it has two seconds to register; otherwise it is probed as an MCP server. The first connection is
//! used.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use toolyard_link::SocketSpec;
use toolyard_model::{BoxFuture, Origin, Transport, local};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Reason, Revision};

use super::conversation::await_registration;
use super::link::LinkedApp;
use super::{AppOptions, Apps, AppsState};
use crate::discovery::{DiscoveredEndpoint, Holder};
use crate::dynamic_upstreams::Seat;
use crate::plan::{AfterLoss, Connect, Connected};

/// How long an app that the gateway connected to has to register.
const REGISTER_WITHIN: Duration = Duration::from_secs(2);

/// The address where an upstream listens, and how it is known.
#[derive(Clone, Debug)]
pub struct Dial {
    pub endpoint: DiscoveredEndpoint,
    /// Reaches the same endpoint as an MCP server.
    pub mcp: Arc<dyn Connect>,
    /// Its description in the config.
    pub description: Option<String>,
    /// Further facts about the upstream, as they are shown to clients.
    pub about: Option<Value>,
    /// How it is known to listen there.
    pub source: Source,
}

impl Dial {
    /// Whether the process that listens at a socket of the file system must run as our user.
    fn own_only(&self) -> bool {
        self.source == Source::Hint || self.endpoint.is_in_the_open()
    }

    /// Which user listens there, where only a hint states that a process does.
    async fn holder(&self) -> Holder {
        if self.source == Source::Config {
            return Holder::Unknown;
        }
        let endpoint = self.endpoint.clone();
        let looked = tokio::task::spawn_blocking(move || endpoint.holder());
        looked.await.unwrap_or(Holder::Unknown)
    }

    /// A hint leads only to processes of our own user.
    async fn refuse_strangers(&self) -> Result<(), Reason> {
        match self.holder().await {
            Holder::Other => Err(format!("another user of this machine listens at {}", self.endpoint).into()),
            Holder::Ours | Holder::None | Holder::Unknown => Ok(()),
        }
    }

    /// Checks who listens there now, before anything is sent to them.
    async fn is_let_in(&self, socket: &SocketSpec, patience: Duration) -> bool {
        if !self.own_only() || matches!(socket, SocketSpec::Tcp(_)) {
            return true;
        }
        timeout(patience, open(socket, true)).await.is_ok_and(|opened| opened.is_ok())
    }
}

/// How an endpoint is known. A later source never overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Config,
    /// A file, or the environment of a process. It leads only to processes that run as our user; at a port, as far as
    /// the system reports whose it is.
    Hint,
}

/// An app that the gateway connects to, as its conversation needs it.
pub(super) struct Dialled {
    pub(super) endpoint: Arc<str>,
    pub(super) description: Option<String>,
    /// Presented by the app if it reconnects by itself.
    pub(super) session: Arc<str>,
    pub(super) seat: Arc<Seat>,
}

/// The way to one upstream.
pub(super) struct Reach(Arc<Inner>);

struct Inner {
    id: UpstreamId,
    /// Weak, because the apps know their upstreams, which know this.
    apps: Weak<AppsState>,
    seat: Arc<Seat>,
    state: Mutex<ReachState>,
    /// Whether the endpoint spoke MCP the last time.
    speaks_mcp: AtomicBool,
}

#[derive(Default)]
struct ReachState {
    dial: Option<Dial>,
    /// Its last connection that registered.
    linked: Option<Arc<LinkedApp>>,
    /// Whether the gateway opened that connection.
    is_dialled: bool,
}

impl Reach {
    pub(super) fn new(apps: &Apps, id: UpstreamId, dial: Option<Dial>) -> Self {
        let (apps, state) =
            (Arc::downgrade(&apps.shared), Mutex::new(ReachState { dial, ..ReachState::default() }));
        Self(Arc::new(Inner { id, apps, seat: Arc::default(), state, speaks_mcp: AtomicBool::new(false) }))
    }

    pub(super) fn seat(&self) -> &Arc<Seat> {
        &self.0.seat
    }

    pub(super) fn linked(&self) -> Option<Arc<LinkedApp>> {
        self.0.state().linked.clone()
    }

    /// Hands over a connection that came by itself.
    pub(super) fn arrive(&self, connected: Connected, linked: Arc<LinkedApp>) {
        let mut state = self.0.state();
        (state.linked, state.is_dialled) = (Some(linked), false);
        drop(state);
        self.0.seat.take(connected);
    }

    /// Whether its last connection is one that we have opened.
    pub(super) fn is_dialled(&self) -> bool {
        self.0.state().is_dialled
    }

    pub(super) fn dial(&self) -> Option<Dial> {
        self.0.state().dial.clone()
    }

    pub(super) fn set_dial(&self, dial: Option<Dial>) {
        self.0.state().dial = dial;
        self.0.speaks_mcp.store(false, Ordering::Relaxed);
    }

    /// Whether the endpoint speaks MCP, so that there is no registration.
    pub(super) fn speaks_mcp(&self) -> bool {
        self.0.speaks_mcp.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, ReachState> {
        self.state.lock()
    }

    /// How long it may take to be connected.
    fn patience(&self) -> Duration {
        let usual = || AppOptions::default().patience;
        self.apps.upgrade().map_or_else(usual, |apps| apps.options.patience)
    }

    async fn reach(&self, dial: Dial, known: Option<Revision>) -> Result<Connected, Reason> {
        dial.refuse_strangers().await?;
        let Some(socket) = dial.endpoint.socket() else {
            let connected = dial.mcp.connect(known).await?;
            self.speaks_mcp.store(true, Ordering::Relaxed);
            return Ok(connected);
        };
        if self.speaks_mcp.swap(false, Ordering::Relaxed)
            && dial.is_let_in(&socket, self.patience()).await
            && let Ok(connected) = dial.mcp.connect(known).await
        {
            self.speaks_mcp.store(true, Ordering::Relaxed);
            return Ok(connected);
        }
        if let Some(connected) = self.listen(&dial, &socket).await? {
            return Ok(connected);
        }
        let connected = dial.mcp.connect(None).await.map_err(|why| {
            let (wait, endpoint) = (REGISTER_WITHIN.as_secs(), &dial.endpoint);
            let what = format!("{endpoint} sent no `register` within {wait} s and does not speak MCP");
            Reason::new(what).caused_by(&why)
        })?;
        self.speaks_mcp.store(true, Ordering::Relaxed);
        Ok(connected)
    }

    /// `None` if no app registers.
    async fn listen(&self, dial: &Dial, socket: &SocketSpec) -> Result<Option<Connected>, Reason> {
        let unreachable = |why: String| {
            let what = format!("nothing answers at {}", dial.endpoint);
            Reason::new(what).because(why).with_hint(away_hint(&dial.endpoint))
        };
        let patience = self.patience();
        let opened = timeout(patience, open(socket, dial.own_only())).await;
        let stream = opened.map_err(|_| unreachable(format!("no answer within {} s", patience.as_secs())))?;
        let stream = stream.map_err(|error| unreachable(error.to_string()))?;
        let apps = Apps { shared: self.apps.upgrade().ok_or("the gateway is stopping")? };
        let dialled = Dialled {
            endpoint: dial.endpoint.to_string().into(),
            description: dial.description.clone(),
            session: apps.session_of(&self.id, &self.seat),
            seat: self.seat.clone(),
        };
        let arrival = await_registration(&apps, stream, (self.id.clone(), &dialled), REGISTER_WITHIN).await;
        let arrival = arrival.map_err(|why| Reason::new(format!("{}: {why}", dial.endpoint)))?;
        Ok(arrival.map(|arrival| {
            self.seat.is_back();
            let mut state = self.state();
            (state.linked, state.is_dialled) = (Some(arrival.linked), true);
            arrival.connected
        }))
    }
}

impl Connect for Reach {
    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let inner = self.0.clone();
        let Some(dial) = self.dial() else { return inner.seat.connect(known) };
        Box::pin(async move {
            tokio::select! {
                biased;
                arrived = inner.seat.arrival() => Ok(arrived),
                reached = inner.reach(dial, known) => reached,
            }
        })
    }

    fn connect_for(&self, known: Option<Revision>, client: &Origin) -> BoxFuture<Result<Connected, Reason>> {
        match self.dial() {
            Some(dial) if self.speaks_mcp() => {
                let connecting = dial.mcp.connect_for(known, client);
                Box::pin(async move {
                    dial.refuse_strangers().await?;
                    connecting.await
                })
            }
            _ => Box::pin(async { Err("an app has one connection for all".into()) }),
        }
    }

    fn look(&self) -> BoxFuture<Result<(), Reason>> {
        let Some(dial) = self.dial() else { return Box::pin(async { Ok(()) }) };
        Box::pin(async move {
            match dial.holder().await {
                Holder::None => Err(Reason::new(format!("nothing listens at {} yet", dial.endpoint))
                    .with_hint(away_hint(&dial.endpoint))),
                Holder::Ours | Holder::Other | Holder::Unknown => Ok(()),
            }
        })
    }

    fn transport(&self) -> Option<Transport> {
        self.dial().filter(|_| self.speaks_mcp())?.mcp.transport()
    }

    fn about(&self) -> Option<Value> {
        let dial = self.dial()?;
        let usual = || json!({ "endpoint": dial.endpoint.to_string(), "description": dial.description });
        Some(dial.about.clone().unwrap_or_else(usual))
    }

    fn after_loss(&self) -> AfterLoss {
        match (self.0.seat.after_loss(), self.dial()) {
            (lost, None) => lost,
            (AfterLoss::Gone, Some(_)) => AfterLoss::Left,
            (_, Some(_)) => AfterLoss::TryAgain,
        }
    }
}

/// The hint about an app or instance that does not answer at the address that its file or the config names.
pub fn away_hint(endpoint: &DiscoveredEndpoint) -> String {
    format!("is its dev server running? It should listen at {endpoint}; `toolyard doctor` shows more")
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reach({})", self.0.id)
    }
}

/// Either kind of socket.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn open(socket: &SocketSpec, own_only: bool) -> io::Result<Box<dyn Stream>> {
    match socket {
        SocketSpec::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        SocketSpec::Local(path) => {
            let stream = local::connect(path).await?;
            if own_only {
                local::refuse_strangers(&stream)?;
            }
            Ok(Box::new(stream))
        }
    }
}
