//! The origin of a request: the view, the principal, the client, and the client's declarations.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use toolyard_proto::modern::LogLevel;
use toolyard_proto::{Raw, Revision};

use crate::{Principal, PrincipalId};

/// The part of the catalog that a client sees, chosen by its path or opening line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum View {
    Everything,
    Upstream(Arc<str>),
    Profile(Arc<str>),
    Hub,
    /// Search and call instead of every definition. An upstream with the id `lean` has this path instead.
    Lean,
}

impl View {
    /// Parses the path after `/mcp/`: empty, `p/NAME`, `hub`, `lean` or an upstream's id.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('/').unwrap_or(text);
        match text.split_once('/') {
            None if text.is_empty() => Some(Self::Everything),
            None if text == "hub" => Some(Self::Hub),
            None if text == "lean" => Some(Self::Lean),
            None => Some(Self::Upstream(text.into())),
            Some(("p", name)) if !name.is_empty() && !name.contains('/') => Some(Self::Profile(name.into())),
            Some(_) => None,
        }
    }
}

impl fmt::Display for View {
    /// Writes the form that [`View::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => Ok(()),
            Self::Upstream(id) => f.write_str(id),
            Self::Profile(name) => write!(f, "p/{name}"),
            Self::Hub => f.write_str("hub"),
            Self::Lean => f.write_str("lean"),
        }
    }
}

/// What carries messages between two programs, as OpenTelemetry names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    Tcp,
    Unix,
    Pipe,
}

impl Transport {
    pub const ALL: [Transport; 3] = [Self::Tcp, Self::Unix, Self::Pipe];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Pipe => "pipe",
        }
    }
}

/// What counts as one client. What a client states about itself is never part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// A legacy session.
    Session(Arc<str>),
    /// A stream connection.
    Connection(u64),
    /// A modern HTTP client with credentials.
    Principal(Principal),
    /// A modern HTTP request without credentials.
    Request(u64),
    /// The gateway itself, when it fetches definitions.
    Gateway,
}

impl ClientKey {
    /// Whether two requests with this key may come from two programs, so that an answer to one must never be taken
    /// for an answer to the other. Many programs may share one credential.
    pub fn may_span_programs(&self) -> bool {
        matches!(self, Self::Request(_) | Self::Principal(_))
    }
}

/// The owner of something that outlives the request it came from, such as a task: one client, or a principal if
/// that is proven. If neither is known, each request is on its own, and knowing the thing's name is the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Client(ClientKey),
    Principal(Principal),
}

impl Owner {
    pub fn of(origin: &Origin) -> Self {
        // A client that reconnects with its credential finds what it owns in any session.
        if origin.client.may_span_programs() || *origin.principal.id() != PrincipalId::Local {
            Self::Principal(origin.principal.clone())
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

    /// Whether a log message with these parameters reaches the level. None does where no level is set.
    pub fn admits(&self, params: Option<&Raw>) -> bool {
        self.get().is_some_and(|wanted| LogLevel::of(params).is_none_or(|level| level >= wanted))
    }
}

/// Everything known about a caller. One per legacy session or modern request.
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
    /// Whether the connection proves who its user is: by a credential, or by a socket that only one user can reach.
    pub is_proven: bool,
    /// The folder that the client works in, where it named one.
    pub folder: Option<Arc<Path>>,
    /// Whether the request has passed all steps on another node and only needs to reach its upstream.
    pub is_relayed: bool,
    /// The gateway that the client called, if there are several.
    pub called: Option<Arc<str>>,
    /// `None` inside of one process.
    pub transport: Option<Transport>,
}

impl Origin {
    /// A caller that has declared no capabilities, no name and no log level.
    pub fn new(view: View, principal: Principal, client: ClientKey, revision: Revision) -> Self {
        let capabilities = Raw::empty_object();
        Self {
            view,
            principal,
            client,
            revision,
            capabilities,
            client_info: None,
            log_level: LevelCell::new(None),
            is_proven: false,
            folder: None,
            is_relayed: false,
            called: None,
            transport: None,
        }
    }

    #[must_use]
    pub fn with_capabilities(self, capabilities: Raw) -> Self {
        Self { capabilities, ..self }
    }

    #[must_use]
    pub fn with_client_info(self, client_info: Option<Raw>) -> Self {
        Self { client_info, ..self }
    }

    #[must_use]
    pub fn with_log_level(self, level: Option<LogLevel>) -> Self {
        Self { log_level: LevelCell::new(level), ..self }
    }

    /// On a connection that proves its user, or not, from this folder.
    #[must_use]
    pub fn with_place(self, is_proven: bool, folder: Option<Arc<Path>>) -> Self {
        Self { is_proven, folder, ..self }
    }

    /// Sets whether the request comes from another node, which has carried out all steps already.
    #[must_use]
    pub fn with_relayed(self, is_relayed: bool) -> Self {
        Self { is_relayed, ..self }
    }

    /// Calls this one of several gateways.
    #[must_use]
    pub fn with_called(self, called: Option<Arc<str>>) -> Self {
        Self { called, ..self }
    }

    /// Reaches the gateway over this transport.
    #[must_use]
    pub fn with_transport(self, transport: Option<Transport>) -> Self {
        Self { transport, ..self }
    }

    /// As which client the request takes turns with others in a queue. Never proof of anything: HTTP requests without a
    /// credential have nothing in common but what the client states about itself, so those of one program take turns as
    /// one client, and all that state nothing as another. Addresses and connections do not help: all come from this
    /// machine, and a client opens a connection for each request that waits.
    pub fn turn(&self) -> Arc<str> {
        match &self.client {
            ClientKey::Session(id) => id.clone(),
            ClientKey::Connection(number) => format!("connection {number}").into(),
            ClientKey::Principal(principal) => principal.name().clone(),
            ClientKey::Request(_) => {
                let mut hasher = DefaultHasher::new();
                self.client_info.as_ref().map(Raw::as_bytes).hash(&mut hasher);
                format!("program {:x}", hasher.finish()).into()
            }
            ClientKey::Gateway => "gateway".into(),
        }
    }

    /// The gateway as a client of its upstreams.
    pub fn gateway(capabilities: Raw, client_info: Raw) -> Arc<Self> {
        let gateway = Self::new(View::Everything, Principal::gateway(), ClientKey::Gateway, Revision::NEWEST);
        Arc::new(gateway.with_capabilities(capabilities).with_client_info(Some(client_info)))
    }
}
