//! The sources of an upstream's lines: a child process, a socket, or the event stream of an
//! HTTP+SSE server.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolyard_model::{LinkEvent, Scope, local};
use toolyard_proto::Reason;

use super::{ConnectError, Plan, Trouble};
use crate::child::{self, ChildSpec, Input, Process};
use crate::http::HttpSpec;
use crate::http::http_sse::{self, SseError};
use crate::http::upstream::{CHECK_PATH, HttpUpstream};
use crate::stream::{Mux, StreamChannel};

/// How long output may still be read after the child itself has gone.
const DRAIN: Duration = Duration::from_millis(500);

/// A socket that another process listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketSpec {
    /// A host and a port, as in `127.0.0.1:4000`.
    Tcp(String),
    /// A socket of this machine.
    Local(PathBuf),
}

impl fmt::Display for SocketSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Local(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

/// A source that can be opened as often as needed.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Child(&'a ChildSpec),
    Socket(&'a SocketSpec),
    Sse(&'a HttpSpec),
}

/// An open channel to an upstream.
pub(super) struct OpenedSource {
    pub(super) channel: StreamChannel,
    pub(super) events: mpsc::Receiver<LinkEvent>,
    /// The pipe to a child's stdin.
    pub(super) input: Option<Input>,
}

impl Source<'_> {
    pub(super) async fn open(self, plan: &Plan<'_>) -> Result<OpenedSource, ConnectError> {
        match self {
            Self::Child(spec) => start(plan, spec),
            Self::Socket(spec) => dial(plan, spec).await,
            Self::Sse(spec) => listen(plan, spec).await,
        }
    }
}

fn start(plan: &Plan<'_>, spec: &ChildSpec) -> Result<OpenedSource, ConnectError> {
    let scope = plan.scope.child();
    let started =
        child::spawn(plan.name, spec, &scope).map_err(|why| ConnectError::new(Trouble::CannotStart, why))?;
    let process = started.process;
    let input = Input::of(&started.stdin);
    let explain_end = process.explain_end();
    let (mux, events) = Mux::start(plan.name, (started.stdout, started.stdin), Some(explain_end), &scope);
    scope.spawn(end_with(process.clone(), mux.clone()));
    Ok(OpenedSource { channel: StreamChannel { mux, process: Some(process), scope }, events, input })
}

/// A child that is gone is not an upstream, even if something it left behind still holds its output open.
async fn end_with(process: Process, mux: Mux) {
    process.exited().await;
    tokio::time::sleep(DRAIN).await;
    mux.shut(&process.exit_cause().await);
}

async fn dial(plan: &Plan<'_>, spec: &SocketSpec) -> Result<OpenedSource, ConnectError> {
    let limit = plan.timeouts.connect;
    let failed = |why: String| {
        let reason = Reason::of_upstream(plan.name, format!("cannot be reached at {spec}")).because(why);
        let hint = "check that it is running and that `url` is right";
        ConnectError::new(Trouble::Unreachable, reason.with_hint(hint))
    };
    let scope = plan.scope.child();
    let dialled = timeout(limit, async {
        match spec {
            SocketSpec::Tcp(address) => TcpStream::connect(address).await.map(|s| over_tcp(plan, s, &scope)),
            SocketSpec::Local(path) => local::connect(path).await.map(|stream| {
                let (read, write) = tokio::io::split(stream);
                Mux::start(plan.name, (read, write), None, &scope)
            }),
        }
    });
    let dialled = dialled.await.map_err(|_| failed(format!("no answer within {limit:?}")))?;
    let (mux, events) = dialled.map_err(|error| failed(error.to_string()))?;
    Ok(OpenedSource { channel: StreamChannel { mux, process: None, scope }, events, input: None })
}

fn over_tcp(plan: &Plan<'_>, stream: TcpStream, scope: &Scope) -> (Mux, mpsc::Receiver<LinkEvent>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    Mux::start(plan.name, stream.into_split(), None, scope)
}

async fn listen(plan: &Plan<'_>, spec: &HttpSpec) -> Result<OpenedSource, ConnectError> {
    let (scope, limit) = (plan.scope.child(), plan.timeouts.connect);
    let upstream = HttpUpstream::new(plan.name, spec, limit, &scope)
        .map_err(|why| ConnectError::new(Trouble::Unreachable, why))?;
    let upstream = Arc::new(upstream);
    let opened = timeout(limit, http_sse::open(upstream.clone(), &scope)).await;
    let opened = opened.unwrap_or_else(|_| {
        let what = format!("sent no event stream within {limit:?}");
        Err(SseError::Other(
            upstream.reason(what).with_hint("check that it is running, or raise `connect_timeout`"),
        ))
    });
    let lines = opened.map_err(|error| {
        scope.cancel();
        not_opened(&upstream, error)
    })?;
    let (mux, events) = Mux::start(plan.name, lines, None, &scope);
    Ok(OpenedSource { channel: StreamChannel { mux, process: None, scope }, events, input: None })
}

fn not_opened(upstream: &HttpUpstream, error: SseError) -> ConnectError {
    let (trouble, reason) = match error {
        SseError::Call(error) => (Trouble::Unreachable, error.reason),
        SseError::Refused(refusal) => {
            let trouble = match refusal.status {
                _ if refusal.wants_credentials() => Trouble::Credentials,
                status if status.is_client_error() => Trouble::Incompatible,
                _ => Trouble::Unreachable,
            };
            (trouble, refusal.reason(upstream))
        }
        SseError::Other(reason) => (Trouble::Incompatible, reason),
    };
    ConnectError::new(trouble, reason.or_hint(CHECK_PATH))
}
