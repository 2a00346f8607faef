//! The connections to one address: free ones are kept for a while, and new ones are opened as needed.
//!
//! A connection is driven by the call that uses it, in the call's own task: sending, waiting and reading cost no
//! second task, no channel between two threads and no wake but that of the socket. Dropping the call, or its
//! half-read answer, therefore closes the connection, which is how a modern upstream learns of a cancel.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use parking_lot::{Mutex, MutexGuard};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep};
use toolyard_model::{BoxFuture, Scope};

use super::connector::{Connector, Stream};
use super::obstacle::Obstacle;
use super::quiet_waker::{QuietWaker, muted};
use super::upstream::root_cause;

const MOST_KEPT: usize = 256;
/// How long a connection may stay unused.
const KEPT_FOR: Duration = Duration::from_mins(1);
const SWEEP: Duration = Duration::from_secs(15);

pub(crate) type Outgoing = Request<Full<Bytes>>;
/// Why there is no response; contains the request if no part of it was sent.
type Unsent = TrySendError<Outgoing>;

/// The connections to one address.
pub(crate) struct ConnectionPool {
    connector: Connector,
    url: Uri,
    idle: Arc<IdleConnections>,
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

impl ConnectionPool {
    pub(crate) fn new(connector: Connector, url: Uri, scope: &Scope) -> Self {
        Self { connector, url, idle: Arc::new(IdleConnections::new(scope)), scope: scope.clone() }
    }

    /// Sends on an idle connection if there is one. The other cases are rare, and boxed so that this future stays small.
    pub(crate) fn send(
        &self,
        request: Outgoing,
    ) -> impl Future<Output = Result<Response<Arriving>, SendError>> {
        let exchange = match self.idle.take() {
            Some(connection) => Ok(connection.exchange(request)),
            None => Err(Box::new(request)),
        };
        async move {
            match exchange {
                Ok(exchange) => match exchange.await {
                    Ok(response) => Ok(response),
                    Err(error) => Box::pin(self.try_again(error)).await,
                },
                Err(request) => Box::pin(self.send_on_new(*request)).await,
            }
        }
    }

    /// An idle connection may have been closed by the server. If nothing was sent, another connection is tried.
    async fn try_again(&self, mut error: Unsent) -> Result<Response<Arriving>, SendError> {
        loop {
            let Some(request) = error.take_message() else { return Err(lost(error)) };
            let Some(connection) = self.idle.take() else { return self.send_on_new(request).await };
            match connection.exchange(request).await {
                Ok(response) => return Ok(response),
                Err(again) => error = again,
            }
        }
    }

    async fn send_on_new(&self, request: Outgoing) -> Result<Response<Arriving>, SendError> {
        self.open().await?.exchange(request).await.map_err(lost)
    }

    async fn open(&self) -> Result<Box<PooledConnection>, SendError> {
        let stream = self.connector.connect(self.url.clone()).await;
        let stream = stream.map_err(|error| SendError::NotConnected(Obstacle::find(&*error)))?;
        let connection = PooledConnection::over(stream, &self.idle, &self.scope).await;
        connection.map_err(|error| SendError::NotConnected(Obstacle::find(&error)))
    }
}

fn lost(error: Unsent) -> SendError {
    SendError::Lost(root_cause(&error.into_error()))
}

/// The idle connections.
struct IdleConnections {
    state: Mutex<IdleState>,
    scope: Scope,
}

#[derive(Default)]
struct IdleState {
    /// The one used last is taken first, so that in quiet times the others expire.
    free: Vec<(Instant, Box<PooledConnection>)>,
    is_swept: bool,
}

impl IdleConnections {
    fn new(scope: &Scope) -> Self {
        Self { state: Mutex::default(), scope: scope.clone() }
    }

    fn state(&self) -> MutexGuard<'_, IdleState> {
        self.state.lock()
    }

    fn take(&self) -> Option<Box<PooledConnection>> {
        self.state().free.pop().map(|(_, connection)| connection)
    }

    /// Keeps a connection whose response has arrived completely, if it can serve another request.
    fn keep(self: &Arc<Self>, mut connection: Box<PooledConnection>) {
        if !connection.is_idle() {
            return;
        }
        let mut state = self.state();
        if state.free.len() >= MOST_KEPT || self.scope.is_ended() {
            return;
        }
        state.free.push((Instant::now(), connection));
        if !std::mem::replace(&mut state.is_swept, true) {
            self.scope.spawn(Sweeper(Arc::downgrade(self)).run());
        }
    }

    /// Drops connections that have been idle for too long or are closed. Returns false when none is left.
    fn sweep(&self) -> bool {
        let mut state = self.state();
        let all = std::mem::take(&mut state.free);
        let is_good = |(since, connection): &mut (Instant, Box<PooledConnection>)| {
            since.elapsed() < KEPT_FOR && connection.is_idle()
        };
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
struct Sweeper(Weak<IdleConnections>);

impl Sweeper {
    async fn run(self) {
        loop {
            sleep(SWEEP).await;
            if !self.0.upgrade().is_some_and(|idle| idle.sweep()) {
                return;
            }
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(idle) = self.0.upgrade().filter(|idle| idle.scope.is_ended()) {
            idle.close();
        }
    }
}

/// One connection, which the call that uses it drives.
struct PooledConnection {
    send: SendRequest<Full<Bytes>>,
    /// Reads and writes the socket; `None` once it has ended.
    driver: Option<Connection<Stream, Full<Bytes>>>,
    /// The waker that the connection is polled with.
    waker: QuietWaker,
    /// Ready when the scope of the connection has ended.
    ended: BoxFuture<()>,
    /// The pool that keeps the connection while it is unused.
    idle: Weak<IdleConnections>,
}

impl PooledConnection {
    async fn over(stream: Stream, idle: &Arc<IdleConnections>, scope: &Scope) -> hyper::Result<Box<Self>> {
        let (send, driver) = http1::handshake(stream).await?;
        let scope = scope.clone();
        let ended = Box::pin(async move { scope.ended().await });
        let (waker, idle) = (QuietWaker::new(), Arc::downgrade(idle));
        Ok(Box::new(Self { send, driver: Some(driver), waker, ended, idle }))
    }

    /// Sends a request and waits for the head of the response.
    fn exchange(
        mut self: Box<Self>,
        request: Outgoing,
    ) -> impl Future<Output = Result<Response<Arriving>, Unsent>> {
        // `unconstrained`, because a wake that yields to the runtime would be lost. Boxed, because the future contains
        // the whole request and would be moved with every future around it.
        let mut sent = Box::pin(unconstrained(self.send.try_send_request(request)));
        async move {
            let response = poll_fn(|cx| {
                self.drive(cx);
                sent.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            });
            let response = response.await?;
            Ok(response.map(|body| Arriving::new(body, self)))
        }
    }

    /// Drives the connection as far as the socket allows. Everything that waits for the connection is checked right
    /// after this, so only the socket has to wake the caller.
    fn drive(&mut self, cx: &mut Context<'_>) {
        self.poll_connection(cx.waker());
        if self.driver.is_some() && self.ended.as_mut().poll(cx).is_ready() {
            self.driver = None;
        }
    }

    fn poll_connection(&mut self, caller: &Waker) {
        if let Some(driver) = &mut self.driver {
            let waker = self.waker.on_behalf_of(caller);
            if Pin::new(driver).poll(&mut Context::from_waker(waker)).is_ready() {
                // Dropping it ends the wait for a response or for more of its body.
                self.driver = None;
            }
        }
    }

    /// Whether it can send a request now. From here on it no longer wakes the caller that used it last.
    fn is_idle(&mut self) -> bool {
        self.poll_connection(Waker::noop());
        self.waker.release();
        self.driver.is_some() && self.send.is_ready()
    }
}

/// The body of a response, with the connection it comes on.
pub(crate) struct Arriving {
    body: Incoming,
    /// `None` once the whole body has arrived: then the connection is free for others.
    connection: Option<Box<PooledConnection>>,
}

impl Arriving {
    fn new(body: Incoming, connection: Box<PooledConnection>) -> Self {
        let mut arriving = Self { body, connection: Some(connection) };
        if arriving.body.is_end_stream() {
            arriving.release();
        }
        arriving
    }

    /// The next piece that has arrived. hyper wakes the connection when a piece is taken; that wake is not needed and is
    /// suppressed, because the connection is driven whenever no piece is ready.
    fn next_piece(&mut self) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        muted(|| Pin::new(&mut self.body).poll_frame(&mut Context::from_waker(Waker::noop())))
    }

    fn release(&mut self) {
        if let Some(connection) = self.connection.take()
            && let Some(idle) = connection.idle.upgrade()
        {
            idle.keep(connection);
        }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut polled = self.next_piece();
        if polled.is_pending()
            && let Some(connection) = &mut self.connection
        {
            connection.drive(cx);
            polled = self.next_piece();
        }
        if matches!(polled, Poll::Ready(None)) || polled.is_ready() && self.body.is_end_stream() {
            self.release();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
