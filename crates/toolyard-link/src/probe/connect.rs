//! Connecting to an upstream: reach it, find out which era it speaks, do the handshake of that era, and return a
//! link. An error lists what was tried.

mod child;
mod http;
mod source;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use toolyard_model::{Connected, Scope};
use toolyard_proto::{Era, Method, Reason};

use crate::child::ChildSpec;
use crate::http::HttpSpec;
use crate::{EraPin, Offer};
pub use source::SocketSpec;
use source::Source;

/// An upstream to connect to.
#[derive(Clone, Debug)]
pub struct UpstreamTarget {
    pub name: Arc<str>,
    pub target: Target,
    pub era: EraPin,
    pub timeouts: Timeouts,
}

/// The place where an upstream is reached.
#[derive(Clone, Debug)]
pub enum Target {
    Child(ChildSpec),
    /// Streamable HTTP, or HTTP+SSE if the server does not speak it.
    Http(HttpSpec),
    /// HTTP+SSE only.
    Sse(HttpSpec),
    Socket(SocketSpec),
}

#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// How long reaching an upstream over the network may take, and again its answer to the handshake.
    pub connect: Duration,
    /// How long a child process may take to start and answer the handshake.
    pub start: Duration,
    /// How long a child may take to answer `server/discover`; a legacy one may never answer it.
    pub probe: Duration,
    /// How long a session with an upstream may go unused.
    pub session_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            start: Duration::from_mins(2),
            probe: Duration::from_secs(3),
            session_idle: Duration::from_mins(10),
        }
    }
}

/// The kind of a failed attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A program could not be started.
    CannotStart,
    /// The address cannot be reached, or does not answer as expected.
    Unreachable,
    /// It requires credentials that it was not given.
    Credentials,
    /// It did not answer in time.
    NoAnswer,
    /// It ended before it answered.
    Gone,
    /// It answered, but there is no common version of the protocol.
    Incompatible,
}

/// Why there is no link.
#[derive(Clone, Debug)]
pub struct ConnectError {
    pub trouble: Trouble,
    pub reason: Reason,
    /// The failures before this one, in order, each different from the others.
    tried: Vec<Reason>,
}

impl ConnectError {
    pub(crate) fn new(trouble: Trouble, reason: impl Into<Reason>) -> Self {
        Self { trouble, reason: reason.into(), tried: Vec::new() }
    }

    /// Whether this means that an upstream that speaks one era does not speak the other, or not at the same time:
    /// it refused, it ended instead of answering, or a second process could not be started.
    pub fn means_one_era(&self) -> bool {
        matches!(self.trouble, Trouble::Incompatible | Trouble::Gone | Trouble::CannotStart)
    }

    /// Adds what was tried before. The same failure is not listed twice.
    #[must_use]
    pub(crate) fn after(mut self, earlier: impl IntoIterator<Item = Reason>) -> Self {
        let later = std::mem::take(&mut self.tried);
        for reason in earlier.into_iter().chain(later) {
            let is_known = |known: &Reason| known.summary() == reason.summary();
            if !is_known(&self.reason) && !self.tried.iter().any(is_known) {
                self.tried.push(reason);
            }
        }
        self
    }
}

impl From<ConnectError> for Reason {
    fn from(error: ConnectError) -> Self {
        if error.tried.is_empty() {
            return error.reason;
        }
        let tried: Vec<String> = error.tried.iter().map(|reason| reason.without_stderr().summary()).collect();
        let stderr = error.tried.iter().rev().find_map(Reason::stderr);
        let reason = match (error.reason.stderr(), stderr) {
            (None, Some(lines)) => error.reason.with_stderr(lines),
            _ => error.reason,
        };
        reason.noting(&format!("before that, it {}", tried.join("; it ")))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Reason::from(self.clone()).fmt(f)
    }
}

impl std::error::Error for ConnectError {}

/// Connects to an upstream. `remembered` is the era it spoke the last time: it spares the question, and is
/// forgotten where it turns out wrong. The link lives in `scope`.
pub async fn connect(
    upstream: &UpstreamTarget,
    remembered: Option<Era>,
    offer: &Offer,
    scope: &Scope,
) -> Result<Connected, ConnectError> {
    let first = match (upstream.era, remembered) {
        (EraPin::Legacy, _) => FirstProbe::Only(Era::Legacy),
        (EraPin::Modern, _) => FirstProbe::Only(Era::Modern),
        (EraPin::Auto, Some(Era::Legacy)) => FirstProbe::LegacyThenProbe,
        (EraPin::Auto, Some(Era::Modern)) => FirstProbe::ProbeModern,
        (EraPin::Auto, None) => FirstProbe::Probe,
    };
    open(upstream, first, offer, scope).await
}

/// Opens a legacy link to an upstream that was found to be modern, for legacy clients. See
/// [`ConnectError::means_one_era`] for what an error means.
pub async fn connect_counterpart(
    upstream: &UpstreamTarget,
    offer: &Offer,
    scope: &Scope,
) -> Result<Connected, ConnectError> {
    if upstream.era != EraPin::Auto {
        return Err(ConnectError::new(Trouble::Incompatible, "`era` is set to a single era"));
    }
    open(upstream, FirstProbe::Only(Era::Legacy), offer, scope).await
}

async fn open(
    upstream: &UpstreamTarget,
    first: FirstProbe,
    offer: &Offer,
    scope: &Scope,
) -> Result<Connected, ConnectError> {
    let plan = Plan { name: &upstream.name, timeouts: upstream.timeouts, offer, scope };
    match &upstream.target {
        Target::Child(spec) => child::connect(&plan, Source::Child(spec), first).await,
        Target::Socket(spec) => child::connect(&plan, Source::Socket(spec), first).await,
        Target::Sse(spec) => {
            // HTTP+SSE has only legacy servers, so the era need not be probed.
            let first = if let FirstProbe::Only(_) = first { first } else { FirstProbe::Only(Era::Legacy) };
            child::connect(&plan, Source::Sse(spec), first).await
        }
        Target::Http(spec) => http::connect(&plan, spec, first).await,
    }
}

/// How to open the conversation.
#[derive(Clone, Copy)]
enum FirstProbe {
    Only(Era),
    /// The upstream was legacy the last time.
    LegacyThenProbe,
    /// The upstream was modern the last time, so silence means that it is slow and not that it is legacy.
    ProbeModern,
    /// The era is unknown.
    Probe,
}

/// The parameters of every attempt.
struct Plan<'a> {
    name: &'a Arc<str>,
    timeouts: Timeouts,
    offer: &'a Offer,
    scope: &'a Scope,
}

fn not_modern(name: &str, why: &Reason) -> ConnectError {
    let reason =
        Reason::of_upstream(name, "does not speak the modern protocol, which `era = \"modern\"` requires");
    ConnectError::new(Trouble::Incompatible, reason.caused_by(why).with_hint("remove `era`"))
}

/// The other side did not answer `method` in time.
fn silent(plan: &Plan<'_>, method: &Method, limit: Duration) -> Reason {
    Reason::of_upstream(plan.name, format!("did not answer `{method}` within {limit:?}"))
}
