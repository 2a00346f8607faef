//! Many calls over one channel: each gets an id of our own and waits for its one answer. If its caller is dropped, the
//! call is cancelled at the upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolyard_model::{BoxFuture, LinkEvent, LinkRequest, Origin, Peer, Scope};
use toolyard_proto::{CallError, Id, Message, Method, Notification, Raw, Reason, RequestMessage};

use super::pump::{self, Outgoing};
use crate::asks::Asks;
use crate::events::Events;
use crate::held_back::HeldBack;
use crate::http::upstream::MAY_HAVE_RUN;
use crate::inflight::{Flight, InFlight, is_addressable};

/// How many messages may wait to be written; calls beyond that wait, too.
const OUTBOX: usize = 256;
/// How many cancels and notifications may wait; beyond that they are dropped.
const ASIDES: usize = 1024;
/// How long the end of a link may wait for its last event to be taken.
const LAST_EVENT: Duration = Duration::from_secs(1);

/// Finds out more about the end of a stream than the stream itself shows.
pub(crate) type ExplainEnd = Box<dyn FnOnce(Ending) -> BoxFuture<Ending> + Send>;

/// How a channel ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// A predicate of the upstream: "exited with status 1".
    pub(crate) what: String,
    /// The last lines of a child's stderr.
    pub(crate) stderr: Option<String>,
}

impl Ending {
    /// As a reason about the upstream of this name.
    pub(crate) fn reason(&self, name: &str) -> Reason {
        let reason = Reason::of_upstream(name, &self.what);
        match &self.stderr {
            Some(stderr) => reason.with_stderr(stderr),
            None => reason,
        }
    }
}

impl From<&str> for Ending {
    fn from(what: &str) -> Self {
        Self { what: what.to_owned(), stderr: None }
    }
}

type CallOutcome = Result<Raw, CallError>;

#[derive(Clone)]
pub(crate) struct Mux(Arc<MuxShared>);

pub(crate) struct MuxShared {
    pub(crate) name: Arc<str>,
    calls: Mutex<MuxCalls>,
    outbox: mpsc::Sender<Outgoing>,
    asides: mpsc::Sender<Bytes>,
    pub(crate) events: Events,
    pub(crate) asks: Asks,
    /// Cancelled when the channel is to end, by us or by a broken writer.
    pub(crate) closing: CancellationToken,
    /// Cancelled once all calls have failed and the last event has been sent.
    ended: CancellationToken,
    strays: AtomicU64,
    garbage: AtomicU64,
    pub(crate) held_back: HeldBack,
    /// Set once the handshake shows that a log level is stated with each request, so that no other message may come.
    takes_levels: AtomicBool,
    /// Set by the first question that may concern more than one client, now or while it is answered.
    interactive: AtomicBool,
}

struct MuxCalls {
    last_id: u64,
    in_flight: InFlight<PendingCall>,
    /// Why there will be no more answers.
    over: Option<Ending>,
}

/// A call that waits for its answer.
pub(crate) struct PendingCall {
    answer: oneshot::Sender<CallOutcome>,
    pub(crate) origin: Arc<Origin>,
    pub(crate) listens: bool,
}

impl Mux {
    pub(crate) fn start<R, W>(
        name: &Arc<str>,
        (reader, writer): (R, W),
        explain_end: Option<ExplainEnd>,
        scope: &Scope,
    ) -> (Self, mpsc::Receiver<LinkEvent>)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (outbox, to_write) = mpsc::channel(OUTBOX);
        let (asides, waiting) = mpsc::channel(ASIDES);
        let (events, receiver) = Events::channel(scope);
        let shared = Arc::new(MuxShared {
            name: name.clone(),
            calls: Mutex::new(MuxCalls { last_id: 0, in_flight: InFlight::default(), over: None }),
            outbox: outbox.clone(),
            asides,
            events,
            asks: Asks::new(scope),
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
            strays: AtomicU64::new(0),
            garbage: AtomicU64::new(0),
            held_back: HeldBack::new(name),
            takes_levels: AtomicBool::new(false),
            interactive: AtomicBool::new(false),
        });
        scope.spawn(pump::write(shared.clone(), writer, to_write));
        scope.spawn(pump::forward(waiting, outbox));
        scope.spawn(pump::read(shared.clone(), reader, explain_end));
        (Self(shared), receiver)
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    pub(crate) fn stray_answers(&self) -> u64 {
        self.0.strays.load(Ordering::Relaxed)
    }

    pub(crate) fn garbage_lines(&self) -> u64 {
        self.0.garbage.load(Ordering::Relaxed)
    }

    /// The other side speaks a revision in which each request states its log level.
    pub(crate) fn take_levels(&self) {
        self.0.takes_levels.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_interactive(&self) -> bool {
        self.0.interactive.load(Ordering::Relaxed)
    }

    pub(crate) async fn call(&self, request: LinkRequest, peer: Peer) -> CallOutcome {
        let (mut ticket, answer, message) = self.register(request, peer)?;
        if self.0.outbox.send(Outgoing::Request(message)).await.is_err() {
            drop(ticket);
            return answer.await.unwrap_or_else(|_| Err(self.0.lost(&"takes no more messages".into())));
        }
        ticket.sent = true;
        answer.await.unwrap_or_else(|_| Err(self.0.lost(&"dropped the call".into())))
    }

    fn register(
        &self,
        request: LinkRequest,
        peer: Peer,
    ) -> Result<(CallTicket, oneshot::Receiver<CallOutcome>, RequestMessage), CallError> {
        let LinkRequest { origin, method, params, .. } = request;
        let token = params.at(&["_meta", "progressToken"]);
        let (sender, answer) = oneshot::channel();
        let (client, principal) = (origin.client.clone(), origin.principal.clone());
        let waiting = PendingCall { answer: sender, origin, listens: method == Method::LISTEN };
        let addressable = is_addressable(&client, &method);
        let had_token = token.is_some();
        let id = self.0.enter(Flight { client, principal, peer, token, addressable, more: waiting })?;
        let minted = Id::number(id);
        let params = if had_token {
            params.with_path(&["_meta", "progressToken"], minted.as_raw()).into()
        } else {
            params
        };
        let cancellable = method != Method::INITIALIZE && method != Method::DISCOVER;
        let message = RequestMessage { id: minted, method, params: Some(params) };
        Ok((CallTicket { shared: self.0.clone(), id, sent: false, cancellable }, answer, message))
    }

    /// Sends a notification without waiting. It is dropped if the upstream reads too slowly.
    pub(crate) fn notify(&self, notification: Notification) {
        self.0.aside(&Message::Notification(notification));
    }

    /// Sends a notification in order with the calls.
    pub(crate) async fn say(&self, notification: Notification) {
        let line = Message::Notification(notification).render();
        let _ = self.0.outbox.send(Outgoing::Line(line)).await;
    }

    /// Fails every call and ends the channel.
    pub(crate) fn shut(&self, ending: &Ending) {
        self.0.end_calls(ending);
        self.0.closing.cancel();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.lock().over.is_some()
    }

    /// How it ended, if it has.
    pub(crate) fn over(&self) -> Option<Ending> {
        self.0.over()
    }

    /// Waits until the last event has been sent, or for a short while.
    pub(crate) async fn ended(&self) {
        let _ = tokio::time::timeout(LAST_EVENT, self.0.ended.cancelled()).await;
    }
}

impl MuxShared {
    fn lock(&self) -> MutexGuard<'_, MuxCalls> {
        self.calls.lock()
    }

    fn enter(&self, flight: Flight<PendingCall>) -> Result<u64, CallError> {
        let mut calls = self.lock();
        if let Some(ending) = &calls.over {
            return Err(CallError::unavailable(ending.reason(&self.name)).at(&self.name));
        }
        calls.last_id += 1;
        let id = calls.last_id;
        calls.in_flight.insert(id, flight);
        Ok(id)
    }

    /// Gives access to the calls in flight, under the lock: `look` must not call back into the mux.
    pub(crate) fn with_calls<T>(&self, look: impl FnOnce(&mut InFlight<PendingCall>) -> T) -> T {
        look(&mut self.lock().in_flight)
    }

    /// Gives a call its one answer. A second answer is dropped.
    pub(crate) fn answer(&self, id: u64, outcome: CallOutcome) {
        let mut calls = self.lock();
        let flight = calls.in_flight.remove(id);
        if flight.is_none() {
            calls.in_flight.answered_late(id);
        }
        drop(calls);
        match flight {
            Some(flight) => drop(flight.more.answer.send(outcome)),
            None => self.count_stray(),
        }
    }

    pub(crate) fn count_stray(&self) {
        self.strays.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn takes_levels(&self) -> bool {
        self.takes_levels.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_interactive(&self) {
        self.interactive.store(true, Ordering::Relaxed);
    }

    pub(crate) fn count_garbage(&self) {
        self.garbage.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self, ending: &Ending) -> CallError {
        CallError::lost(ending.reason(&self.name).with_hint(MAY_HAVE_RUN)).at(&self.name)
    }

    /// Fails every call in flight and refuses new ones. If it is called again, the first reason is kept.
    pub(crate) fn end_calls(&self, ending: &Ending) {
        let mut calls = self.lock();
        calls.over.get_or_insert_with(|| ending.clone());
        let flights = calls.in_flight.drain();
        drop(calls);
        for flight in flights {
            let _ = flight.more.answer.send(Err(self.lost(ending)));
        }
    }

    /// Why the channel is over, if it is.
    pub(crate) fn over(&self) -> Option<Ending> {
        self.lock().over.clone()
    }

    pub(crate) fn mark_ended(&self) {
        self.ended.cancel();
    }

    pub(crate) fn reply(self: &Arc<Self>, message: &Message) -> BoxFuture<()> {
        let (outbox, line) = (self.outbox.clone(), message.render());
        Box::pin(async move {
            let _ = outbox.send(Outgoing::Line(line)).await;
        })
    }

    fn aside(&self, message: &Message) {
        if self.asides.try_send(message.render()).is_err() {
            tracing::debug!(upstream = %self.name, "a notification was dropped: the upstream does not read");
        }
    }

    /// Cancels a call whose caller no longer waits.
    fn abandon(&self, id: u64, tell: bool) {
        let abandoned = self.lock().in_flight.leave(id, Instant::now()).is_some();
        if abandoned && tell {
            let params = serde_json::json!({ "requestId": id, "reason": "the client cancelled the call" });
            self.aside(&Message::Notification(Notification::new(Method::CANCELLED, Raw::from(params))));
        }
    }
}

/// Held while a call waits for its answer. Dropping it earlier cancels the call.
struct CallTicket {
    shared: Arc<MuxShared>,
    id: u64,
    sent: bool,
    cancellable: bool,
}

impl Drop for CallTicket {
    fn drop(&mut self) {
        self.shared.abandon(self.id, self.sent && self.cancellable);
    }
}
