//! The accept loop of all listeners of the endpoint, with a limit on the number of open connections.

use std::io;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_model::Scope;
use toolyard_model::local::{LocalListener, LocalStream};

use super::endpoint::{Counts, Endpoint};

/// How many connections beyond the limit get an error at the same time; the rest are closed without one.
const REFUSALS: usize = 64;

/// A source of connections.
pub(super) trait Entrance: Send + Sync + 'static {
    type Stream: Send + 'static;

    fn accept_one(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Entrance for TcpListener {
    type Stream = TcpStream;

    async fn accept_one(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        Ok(stream)
    }
}

impl Entrance for LocalListener {
    type Stream = LocalStream;

    async fn accept_one(&self) -> io::Result<LocalStream> {
        self.accept().await
    }
}

/// Hands every connection to `take` until `scope` or the endpoint ends.
pub(super) async fn accept_all<E: Entrance>(
    entrance: E,
    endpoint: &Endpoint,
    scope: &Scope,
    take: impl Fn(E::Stream),
) {
    tokio::select! {
        never = toolyard_model::accept_all("a connection", || entrance.accept_one(), take) => match never {},
        () = scope.ended() => {}
        () = endpoint.ending.ended() => {}
    }
}

/// How many connections one listener has room for.
pub(super) struct Room {
    seats: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
}

/// The decision about a new connection.
pub(super) enum Admission {
    Accepted(OwnedSemaphorePermit),
    /// There is no room; the client receives an error.
    Refused(OwnedSemaphorePermit),
    /// Too many are being refused already.
    Dropped,
}

impl Room {
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        let seats = Arc::new(Semaphore::new(endpoint.options.connections));
        Self { seats, refusals: Arc::new(Semaphore::new(REFUSALS)) }
    }

    pub(super) fn enter(&self, counts: &Counts) -> Admission {
        if let Ok(permit) = self.seats.clone().try_acquire_owned() {
            return Admission::Accepted(permit);
        }
        Counts::add(&counts.refused);
        self.refusals.clone().try_acquire_owned().map_or(Admission::Dropped, Admission::Refused)
    }
}
