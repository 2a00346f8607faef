//! Between bytes and calls: the server endpoint that clients meet, and the links that lead to upstreams.
//! Knows requests, answers and the way back; knows nothing of tools.

pub mod admit;
pub mod answer;
pub mod child;
pub mod handler;
pub mod http;
pub mod link;
pub mod local;
pub mod origin;
pub mod peer;
pub mod probe;
pub mod scope;
pub mod serve;
pub mod stream;

pub use answer::{Answer, AnswerBody, EndGuard, Relay, RelayKind};
pub use connect::{ConnectError, Connected, SocketSpec, Target, Timeouts, Trouble, UpstreamTarget, connect};
pub use handler::{Handler, Request};
pub use link::{Greeting, Link, LinkEvent, LinkRequest};
pub use origin::{ClientKey, LevelCell, Origin, Owner, Principal, View};
pub use peer::{Ask, AskError, Back, Peer};
pub use probe::connect;
pub use probe::{EraPin, Offer};
pub use scope::Scope;

/// A future on the heap, as the seams of this crate pass them.
pub type BoxFuture<T> = std::pin::Pin<Box<dyn std::future::Future<Output = T> + Send + 'static>>;
