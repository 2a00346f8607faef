//! The way back to whoever called: notifications, and questions that wait for an answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use toolyard_proto::{Method, Notification, Raw};

use crate::BoxFuture;

/// A question to the client in the middle of a call: elicitation, sampling or roots.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: Method,
    pub params: Option<Raw>,
}

/// Why a question got no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The client answered with this error object.
    #[error("the client answered with an error")]
    Reported(Raw),
    #[error("{0}")]
    Unsupported(String),
    #[error("the client went away before it answered")]
    Gone,
    #[error("the client did not answer in time")]
    Timeout,
}

/// What an edge offers as the way back. Implemented by the endpoint for each kind of client, and wrapped by
/// steps that watch what passes.
pub trait Back: Send + Sync + 'static {
    /// Sends a notification that belongs to this call. Never waits: where the client reads too slowly, it is
    /// dropped and counted.
    fn notify(&self, notification: Notification);

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>>;

    /// Hangs up the client's stream of this call; it comes back for the rest. Only some legacy clients can,
    /// so for all others nothing happens.
    fn hang_up(&self, _come_back_after: Duration) {}
}

/// A cheap handle to the way back.
#[derive(Clone)]
pub struct Peer(Arc<dyn Back>);

impl Peer {
    pub fn new(back: Arc<dyn Back>) -> Self {
        Self(back)
    }

    /// For calls of the gateway itself: nobody listens, nobody answers.
    pub fn nobody() -> Self {
        Self(Arc::new(Nobody))
    }

    pub fn notify(&self, notification: Notification) {
        self.0.notify(notification);
    }

    pub fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        self.0.ask(ask)
    }

    pub fn hang_up(&self, come_back_after: Duration) {
        self.0.hang_up(come_back_after);
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Peer")
    }
}

struct Nobody;

impl Back for Nobody {
    fn notify(&self, _: Notification) {}

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(async { Err(AskError::Unsupported("there is no client to ask".into())) })
    }
}
