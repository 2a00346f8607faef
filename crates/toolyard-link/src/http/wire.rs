//! One connection to an upstream, driven by the call that uses it.
//!
//! The call itself drives the connection, in its own task: sending, waiting and reading cost no second
//! task, no channel between two threads and no wake but that of the socket. Dropping the call, or its
//! half-read answer, therefore closes the connection, which is how a modern upstream learns of a cancel.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use tokio::task::unconstrained;
use toolyard_model::{BoxFuture, Scope};

use super::connector::Stream;
use super::quiet_waker::{QuietWaker, muted};
use super::wires::Kept;

pub(crate) type Outgoing = Request<Full<Bytes>>;
/// Why there is no response, with the request if nothing of it was sent.
pub(super) type Unsent = TrySendError<Outgoing>;

pub(super) struct Wire {
    send: SendRequest<Full<Bytes>>,
    /// `None` once it has ended.
    connection: Option<Connection<Stream, Full<Bytes>>>,
    /// The waker that the connection is polled with.
    waker: QuietWaker,
    /// The scope that the connection lives in.
    ended: BoxFuture<()>,
    /// Where it is kept while it is unused.
    home: Weak<Kept>,
}

impl Wire {
    pub(super) async fn over(stream: Stream, home: &Arc<Kept>, scope: &Scope) -> hyper::Result<Box<Self>> {
        let (send, connection) = http1::handshake(stream).await?;
        let scope = scope.clone();
        let ended = Box::pin(async move { scope.ended().await });
        let (waker, home) = (QuietWaker::new(), Arc::downgrade(home));
        Ok(Box::new(Self { send, connection: Some(connection), waker, ended, home }))
    }

    /// Sends a request and waits for the head of the response.
    pub(super) fn exchange(
        mut self: Box<Self>,
        request: Outgoing,
    ) -> impl Future<Output = Result<Response<Arriving>, Unsent>> {
        // Outside the runtime's budget: a wake to yield would be lost. In a box, because the future contains
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
        self.turn(cx.waker());
        if self.connection.is_some() && self.ended.as_mut().poll(cx).is_ready() {
            self.connection = None;
        }
    }

    fn turn(&mut self, caller: &Waker) {
        if let Some(connection) = &mut self.connection {
            let waker = self.waker.on_behalf_of(caller);
            if Pin::new(connection).poll(&mut Context::from_waker(waker)).is_ready() {
                // Dropping it ends the wait for a response or for more of its body.
                self.connection = None;
            }
        }
    }

    /// Whether it could take a request now. The caller that used it last is not woken by it any more.
    pub(super) fn is_idle(&mut self) -> bool {
        self.turn(Waker::noop());
        self.waker.release();
        self.connection.is_some() && self.send.is_ready()
    }
}

/// The body of a response, with the connection it comes on.
pub(crate) struct Arriving {
    body: Incoming,
    /// `None` once the whole body has arrived: then the connection is free for others.
    wire: Option<Box<Wire>>,
}

impl Arriving {
    fn new(body: Incoming, wire: Box<Wire>) -> Self {
        let mut arriving = Self { body, wire: Some(wire) };
        if arriving.body.is_end_stream() {
            arriving.let_go();
        }
        arriving
    }

    /// The next piece that has arrived. Taking it wakes the connection, which needs no wake: it is driven when there is
    /// nothing to take.
    fn next_piece(&mut self) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        muted(|| Pin::new(&mut self.body).poll_frame(&mut Context::from_waker(Waker::noop())))
    }

    fn let_go(&mut self) {
        if let Some(wire) = self.wire.take()
            && let Some(home) = wire.home.upgrade()
        {
            home.keep(wire);
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
            && let Some(wire) = &mut self.wire
        {
            wire.drive(cx);
            polled = self.next_piece();
        }
        if matches!(polled, Poll::Ready(None)) || polled.is_ready() && self.body.is_end_stream() {
            self.let_go();
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
