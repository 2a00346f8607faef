//! What all listeners do: accept until the endpoint ends, wait when the system has nothing left to give, and let
//! in only as many as there is room for.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_model::Scope;
use toolyard_model::local::{LocalListener, LocalStream};

use super::endpoint::{Counts, Endpoint};

/// How many connections beyond the limit get an error at the same time; the rest are closed without one.
const REFUSALS: usize = 64;

/// Where connections come from.
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
    let mut backoff = Duration::ZERO;
    loop {
        let accepted = tokio::select! {
            accepted = entrance.accept_one() => accepted,
            () = scope.ended() => return,
            () = endpoint.ending.ended() => return,
        };
        match accepted {
            Ok(stream) => {
                backoff = Duration::ZERO;
                take(stream);
            }
            Err(error) => {
                // Out of file descriptors, most likely: waiting is all that helps.
                backoff = (backoff * 2).clamp(Duration::from_millis(10), Duration::from_secs(1));
                tracing::warn!(%error, ?backoff, "cannot accept a connection");
                tokio::time::sleep(backoff).await;
            }
        }
    }
}

/// How many connections one listener has room for.
pub(super) struct Room {
    seats: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
}

/// What becomes of a connection.
pub(super) enum Entry {
    Welcome(OwnedSemaphorePermit),
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

    pub(super) fn enter(&self, counts: &Counts) -> Entry {
        if let Ok(permit) = self.seats.clone().try_acquire_owned() {
            return Entry::Welcome(permit);
        }
        Counts::add(&counts.refused);
        self.refusals.clone().try_acquire_owned().map_or(Entry::Dropped, Entry::Refused)
    }
}
