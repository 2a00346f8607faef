//! Who is calling: the view they chose, who they are, and what they said they can do.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use toolyard_proto::modern::LogLevel;
use toolyard_proto::{Raw, Revision};

/// Which part of the catalog a client looks at, as its path (or opening line) says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum View {
    Everything,
    Upstream(Arc<str>),
    Profile(Arc<str>),
    Hub,
}

impl View {
    /// From what follows `/mcp/`: nothing, `p/NAME`, `hub` or an upstream's id.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('/').unwrap_or(text);
        match text.split_once('/') {
            None if text.is_empty() => Some(Self::Everything),
            None if text == "hub" => Some(Self::Hub),
            None => Some(Self::Upstream(text.into())),
            Some(("p", name)) if !name.is_empty() && !name.contains('/') => Some(Self::Profile(name.into())),
            Some(_) => None,
        }
    }
}

impl fmt::Display for View {
    /// As [`View::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => Ok(()),
            Self::Upstream(id) => f.write_str(id),
            Self::Profile(name) => write!(f, "p/{name}"),
            Self::Hub => f.write_str("hub"),
        }
    }
}

/// Who is calling, as proven by what they presented. Making one is the act of admitting somebody.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Whoever can reach a loopback listener that asks for no credentials.
    pub fn local() -> Self {
        Self("local".into())
    }

    pub fn named(name: &str) -> Self {
        Self(name.into())
    }

    pub fn name(&self) -> &Arc<str> {
        &self.0
    }
}

/// What counts as one client. What a client says of itself is never part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// A legacy session.
    Session(Arc<str>),
    /// A stream connection.
    Connection(u64),
    /// A modern HTTP client with credentials.
    Principal(Arc<str>),
    /// A modern HTTP request without.
    Request(u64),
    /// The gateway itself, asking for definitions.
    Gateway,
}

impl ClientKey {
    /// Whether two requests with this key may come from two programs, so that an answer to the one must never
    /// be taken for one to the other. Many programs may share one credential.
    pub fn stands_alone(&self) -> bool {
        matches!(self, Self::Request(_) | Self::Principal(_))
    }
}

/// Whose something is that outlives the request it came from, such as a task: one client's; or a principal's, where
/// that is proven. Where neither is, each request stands alone, and to know the thing's name must be proof enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Client(ClientKey),
    Principal(Arc<str>),
}

impl Owner {
    pub fn of(origin: &Origin) -> Self {
        // Whoever comes back with its credential finds what it owns in whatever session.
        if origin.client.stands_alone() || origin.principal != Principal::local() {
            Self::Principal(origin.principal.name().clone())
        } else {
            Self::Client(origin.client.clone())
        }
    }
}

/// The log level of a client: fixed for a modern request, changeable in a legacy session.
#[derive(Debug)]
pub struct LevelCell(AtomicU8);

impl LevelCell {
    const UNSET: u8 = u8::MAX;

    pub fn new(level: Option<LogLevel>) -> Self {
        Self(AtomicU8::new(level.map_or(Self::UNSET, LogLevel::index)))
    }

    pub fn set(&self, level: LogLevel) {
        self.0.store(level.index(), Ordering::Relaxed);
    }

    pub fn get(&self) -> Option<LogLevel> {
        LogLevel::from_index(self.0.load(Ordering::Relaxed))
    }
}

/// Everything known of a caller. One per legacy session or modern request.
#[derive(Debug)]
pub struct Origin {
    pub view: View,
    pub principal: Principal,
    pub client: ClientKey,
    pub revision: Revision,
    /// The client's capabilities in the form of its revision.
    pub capabilities: Raw,
    pub client_info: Option<Raw>,
    pub log_level: LevelCell,
}

impl Origin {
    /// The gateway's own voice towards its upstreams.
    pub fn gateway(capabilities: Raw, client_info: Raw) -> Arc<Self> {
        Arc::new(Self {
            view: View::Everything,
            principal: Principal::named("gateway"),
            client: ClientKey::Gateway,
            revision: Revision::NEWEST,
            capabilities,
            client_info: Some(client_info),
            log_level: LevelCell::new(None),
        })
    }
}
