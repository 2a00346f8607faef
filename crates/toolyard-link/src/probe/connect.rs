//! Meeting an upstream: reach it, find out which era it speaks, shake hands where that is the custom, and
//! hand back a link. An error says what was tried, step by step.

mod child;
mod http;
mod source;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use toolyard_model::{Connected, Scope};
use toolyard_proto::{Era, Reason};

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

/// Where an upstream is found.
#[derive(Clone, Debug)]
pub enum Target {
    Child(ChildSpec),
    /// Streamable HTTP, or what came before it where that is all it speaks.
    Http(HttpSpec),
    /// HTTP+SSE only.
    Sse(HttpSpec),
    Socket(SocketSpec),
}

#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For reaching an upstream, and again for its answer to the handshake.
    pub connect: Duration,
    /// For a child's answer to the question which era it speaks; older ones may never answer that.
    pub probe: Duration,
    /// How long a session with an upstream may go unused.
    pub session_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            probe: Duration::from_secs(3),
            session_idle: Duration::from_mins(10),
        }
    }
}

/// What kind of trouble it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A program could not be started.
    CannotStart,
    /// Nobody answers at that address, or what answers is out of order.
    Unreachable,
    /// It wants credentials that it was not given.
    Credentials,
    /// It did not answer in time.
    NoAnswer,
    /// It went away before it answered.
    Gone,
    /// It answered, but we have no version of the protocol in common.
    Incompatible,
}

/// Why there is no link, and what was tried.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}{}", History(.tried))]
pub struct ConnectError {
    pub trouble: Trouble,
    pub message: String,
    /// What had failed before, in order.
    pub tried: Vec<String>,
}

impl ConnectError {
    pub(crate) fn new(trouble: Trouble, message: impl Into<String>) -> Self {
        Self { trouble, message: message.into(), tried: Vec::new() }
    }

    #[must_use]
    pub(crate) fn after(mut self, mut tried: Vec<String>) -> Self {
        tried.append(&mut self.tried);
        self.tried = tried;
        self
    }
}

impl From<ConnectError> for Reason {
    fn from(error: ConnectError) -> Self {
        Self::new(error.to_string())
    }
}

struct History<'a>(&'a [String]);

impl fmt::Display for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " (before that: {})", self.0.join("; ")) }
    }
}

/// Connects to an upstream. `remembered` is the era it spoke the last time: it spares the question, and is
/// forgotten where it turns out wrong. The link lives in `scope`.
pub async fn connect(
    upstream: &UpstreamTarget,
    remembered: Option<Era>,
    offer: &Offer,
    scope: &Scope,
) -> Result<Connected, ConnectError> {
    let plan = Plan { name: &upstream.name, timeouts: upstream.timeouts, offer, scope };
    let first = match (upstream.era, remembered) {
        (EraPin::Legacy, _) => First::Only(Era::Legacy),
        (EraPin::Modern, _) => First::Only(Era::Modern),
        (EraPin::Auto, Some(Era::Legacy)) => First::LegacyThenProbe,
        // A probe is how a modern upstream is met anyway; one that was modern before may take its time.
        (EraPin::Auto, Some(Era::Modern)) => First::Probe(upstream.timeouts.connect),
        (EraPin::Auto, None) => First::Probe(upstream.timeouts.probe),
    };
    match &upstream.target {
        Target::Child(spec) => child::connect(&plan, Source::Child(spec), first).await,
        Target::Socket(spec) => child::connect(&plan, Source::Socket(spec), first).await,
        Target::Sse(spec) => {
            // It is older than the question.
            let first = if let First::Only(_) = first { first } else { First::Only(Era::Legacy) };
            child::connect(&plan, Source::Sse(spec), first).await
        }
        Target::Http(spec) => http::connect(&plan, spec, first).await,
    }
}

/// How to open the conversation.
#[derive(Clone, Copy)]
enum First {
    Only(Era),
    LegacyThenProbe,
    /// Ask, and wait so long for an answer where silence means something.
    Probe(Duration),
}

/// What every attempt needs to know.
struct Plan<'a> {
    name: &'a Arc<str>,
    timeouts: Timeouts,
    offer: &'a Offer,
    scope: &'a Scope,
}

fn not_modern(why: &str) -> ConnectError {
    let why = format!("it does not speak the modern protocol that `era = \"modern\"` asks for: {why}");
    ConnectError::new(Trouble::Incompatible, why)
}
