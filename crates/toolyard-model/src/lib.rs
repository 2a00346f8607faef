//! The model of a request that both edges of the gateway share: the handler that answers it, the origin it came
//! from, the answer, the way back to the client, and the link that carries it to an upstream.
//!
//! Does not know HTTP servers, TLS or tools, so that a tool's author compiles neither client nor gateway.

pub mod accept;
pub mod answer;
pub mod blocking;
pub mod control;
pub mod delegates;
pub mod handler;
pub mod headers;
pub mod link;
pub mod nodes;
pub mod local;
pub mod origin;
pub mod pages;
pub mod parent;
pub mod peer;
pub mod principal;
pub mod private_file;
pub mod scope;
pub mod seal;
pub mod shared_file;
pub mod shared_secrets;
pub mod signed;

#[cfg(unix)]
pub use toolyard_guard::processes;

pub use accept::accept_all;
pub use answer::{Answer, AnswerBody, EndGuard, Relay, RelayKind};
pub use control::{Control, ControlEvent, ControlRequest, ControlResponse};
pub use delegates::Delegates;
pub use handler::{Handler, Request};
pub use link::{Connected, Greeting, Link, LinkEvent, LinkRequest};
pub use nodes::{Forwarded, Nodes, NotForwarded, PassedOn};
pub use origin::{ClientKey, Origin, Owner, Transport, View};
pub use pages::{Page, Pages};
pub use parent::Parent;
pub use peer::{Ask, AskError, Back, Peer};
pub use principal::{Principal, PrincipalId};
pub use scope::Scope;
pub use seal::Keys;
pub use shared_secrets::{SharedLock, SharedSecrets, Versioned};

/// A future on the heap, as the traits of this crate return them.
pub type BoxFuture<T> = std::pin::Pin<Box<dyn std::future::Future<Output = T> + Send + 'static>>;
