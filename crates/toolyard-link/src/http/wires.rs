//! The connections to one address: free ones are kept for a while, and new ones are opened as needed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{Response, Uri};
use tokio::time::{Instant, sleep};
use toolyard_model::Scope;

use super::connector::Connector;
use super::endpoint::root_cause;
use super::obstacle::Obstacle;
use super::wire::{Arriving, Outgoing, Unsent, Wire};

const MOST_KEPT: usize = 256;
/// How long a connection may stay unused.
const KEPT_FOR: Duration = Duration::from_mins(1);
const SWEEP: Duration = Duration::from_secs(15);

pub(crate) struct Wires {
    connector: Connector,
    url: Uri,
    kept: Arc<Kept>,
    scope: Scope,
}

/// Why there is no response.
#[derive(Debug)]
pub(crate) enum SendError {
    /// No connection was opened, so nothing was sent.
    NotConnected(Obstacle),
    /// The connection broke after the request was sent.
    Lost(String),
}

impl Wires {
    pub(crate) fn new(connector: Connector, url: Uri, scope: &Scope) -> Self {
        Self { connector, url, kept: Arc::new(Kept::new(scope)), scope: scope.clone() }
    }

    /// Sends on a kept connection if there is one; everything else is rare, and separate so that this stays small.
    pub(crate) fn send(
        &self,
        request: Outgoing,
    ) -> impl Future<Output = Result<Response<Arriving>, SendError>> {
        let begun = match self.kept.take() {
            Some(wire) => Ok(wire.exchange(request)),
            None => Err(Box::new(request)),
        };
        async move {
            match begun {
                Ok(exchange) => match exchange.await {
                    Ok(response) => Ok(response),
                    Err(error) => Box::pin(self.try_again(error)).await,
                },
                Err(request) => Box::pin(self.send_on_new(*request)).await,
            }
        }
    }

    /// A kept connection may have been closed meanwhile; as long as nothing was sent, another is tried.
    async fn try_again(&self, mut error: Unsent) -> Result<Response<Arriving>, SendError> {
        loop {
            let Some(request) = error.take_message() else { return Err(lost(error)) };
            let Some(wire) = self.kept.take() else { return self.send_on_new(request).await };
            match wire.exchange(request).await {
                Ok(response) => return Ok(response),
                Err(again) => error = again,
            }
        }
    }

    async fn send_on_new(&self, request: Outgoing) -> Result<Response<Arriving>, SendError> {
        self.open().await?.exchange(request).await.map_err(lost)
    }

    async fn open(&self) -> Result<Box<Wire>, SendError> {
        let stream = self.connector.connect(self.url.clone()).await;
        let stream = stream.map_err(|error| SendError::NotConnected(Obstacle::find(&*error)))?;
        let wire = Wire::over(stream, &self.kept, &self.scope).await;
        wire.map_err(|error| SendError::NotConnected(Obstacle::find(&error)))
    }
}

fn lost(error: Unsent) -> SendError {
    SendError::Lost(root_cause(&error.into_error()))
}

/// The idle connections.
pub(super) struct Kept {
    state: Mutex<State>,
    scope: Scope,
}

#[derive(Default)]
struct State {
    /// The one used last is taken first, so that in quiet times the others expire.
    free: Vec<(Instant, Box<Wire>)>,
    is_swept: bool,
}

impl Kept {
    fn new(scope: &Scope) -> Self {
        Self { state: Mutex::default(), scope: scope.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Box<Wire>> {
        self.state().free.pop().map(|(_, wire)| wire)
    }

    /// Keeps a connection whose response has arrived completely, if it can serve another request.
    pub(super) fn keep(self: &Arc<Self>, mut wire: Box<Wire>) {
        if !wire.is_idle() {
            return;
        }
        let mut state = self.state();
        if state.free.len() >= MOST_KEPT || self.scope.is_ended() {
            return;
        }
        state.free.push((Instant::now(), wire));
        if !std::mem::replace(&mut state.is_swept, true) {
            self.scope.spawn(Sweeper(Arc::downgrade(self)).run());
        }
    }

    /// Drops connections that were not used for long or have been closed. False when none is left.
    fn sweep(&self) -> bool {
        let mut state = self.state();
        let all = std::mem::take(&mut state.free);
        let is_good = |(since, wire): &mut (Instant, Box<Wire>)| since.elapsed() < KEPT_FOR && wire.is_idle();
        state.free = all.into_iter().filter_map(|mut free| is_good(&mut free).then_some(free)).collect();
        state.is_swept = !state.free.is_empty();
        state.is_swept
    }

    fn close(&self) {
        let free = std::mem::take(&mut self.state().free);
        drop(free);
    }
}

/// Drops old connections from time to time, as long as there are any, and all of them when the scope ends.
struct Sweeper(Weak<Kept>);

impl Sweeper {
    async fn run(self) {
        loop {
            sleep(SWEEP).await;
            if !self.0.upgrade().is_some_and(|kept| kept.sweep()) {
                return;
            }
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(kept) = self.0.upgrade().filter(|kept| kept.scope.is_ended()) {
            kept.close();
        }
    }
}

#[cfg(test)]
mod tests;
