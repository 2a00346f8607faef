//! The loop of every listener: accept a connection, hand it on, and wait when the system has nothing left to give.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Hands every connection to `take`, until the future is dropped. A failed `accept` means, most likely, that there are
/// no file descriptors left, so the next attempt waits; `what` names the connection in the log.
pub async fn accept_all<T, F>(what: &str, accept: impl Fn() -> F, take: impl Fn(T)) -> Infallible
where
    F: Future<Output = io::Result<T>>,
{
    loop {
        take(accept_next(what, &accept).await);
    }
}

/// The next connection, for listeners that do not always accept one.
pub async fn accept_next<T, F>(what: &str, accept: impl Fn() -> F) -> T
where
    F: Future<Output = io::Result<T>>,
{
    let mut pause = Duration::ZERO;
    loop {
        match accept().await {
            Ok(connection) => return connection,
            Err(error) => {
                pause = (pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                tracing::warn!(%error, ?pause, "cannot accept {what}");
                tokio::time::sleep(pause).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_double_the_pause_and_a_connection_ends_it() {
        let attempts = Cell::new(0);
        let at = RefCell::new(Vec::new());
        let started = Instant::now();
        let accept = || async {
            attempts.set(attempts.get() + 1);
            at.borrow_mut().push(started.elapsed().as_millis());
            match attempts.get() {
                4 => Ok(()),
                9.. => std::future::pending().await,
                _ => Err(io::Error::other("no file descriptors left")),
            }
        };
        let taken = Cell::new(0);
        let looped = accept_all("a connection", accept, |()| taken.set(taken.get() + 1));
        assert!(tokio::time::timeout(Duration::from_mins(1), looped).await.is_err());
        assert_eq!(taken.get(), 1);
        assert_eq!(*at.borrow(), [0, 10, 30, 70, 70, 80, 100, 140, 220]);
    }
}
