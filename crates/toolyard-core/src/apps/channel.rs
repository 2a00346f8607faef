//! The channel of an app's connection: calls that wait for their answers, and lines that wait to be written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolyard_model::Peer;
use toolyard_proto::app::{self, Partial, Progress};
use toolyard_proto::codec::line::one_line;
use toolyard_proto::{CallError, Method, Notification, Raw};

/// How many messages may wait to be written; calls beyond that wait too.
const OUTBOX: usize = 256;
/// How many bytes the waiting messages may hold.
const OUTBOX_BYTES: usize = 64 * 1024 * 1024;
/// How many cancels and heartbeats may wait; beyond that they are dropped.
const ASIDES: usize = 1024;
/// How much progress a partial result counts as.
const PARTIAL_STEP: f64 = 1e-6;
/// The maximum number of messages in one write.
const BATCH: usize = 32;

/// The outcome of a call: the result as the app sent it, or `None` if the connection was lost.
pub(super) type InvocationOutcome = Option<Option<Raw>>;

/// A call that waits. About a hundred bytes with its place in the table.
pub(super) struct PendingInvocation {
    answer: oneshot::Sender<InvocationOutcome>,
    peer: Peer,
    /// The client's own progress token, if it wants progress.
    token: Option<Box<Raw>>,
    /// The highest progress that was passed on.
    progress: f64,
}

struct AppCalls {
    waiting: HashMap<i64, PendingInvocation>,
    /// Why there will be no more answers.
    over: Option<String>,
}

/// A line on its way, with the room it takes.
pub(super) struct Line {
    bytes: Bytes,
    /// Released when the bytes have been written.
    _room: Option<OwnedSemaphorePermit>,
}

pub(super) struct AppChannel {
    pub(super) name: Arc<str>,
    calls: Mutex<AppCalls>,
    last_id: Arc<AtomicI64>,
    outbox: mpsc::Sender<Line>,
    asides: mpsc::Sender<Bytes>,
    room: Arc<Semaphore>,
    /// Ended by the gateway or by a broken writer.
    pub(super) closing: CancellationToken,
    /// The app has answered a heartbeat.
    pub(super) beat: Notify,
    strays: AtomicU64,
    garbage: AtomicU64,
}

/// The messages that wait to be written.
pub(super) struct Outgoing {
    outbox: mpsc::Receiver<Line>,
    asides: mpsc::Receiver<Bytes>,
}

impl AppChannel {
    pub(super) fn new(name: Arc<str>, last_id: Arc<AtomicI64>) -> (Arc<Self>, Outgoing) {
        let (outbox, lines) = mpsc::channel(OUTBOX);
        let (asides, beside) = mpsc::channel(ASIDES);
        let channel = Self {
            name,
            calls: Mutex::new(AppCalls { waiting: HashMap::new(), over: None }),
            last_id,
            outbox,
            asides,
            room: Arc::new(Semaphore::new(OUTBOX_BYTES)),
            closing: CancellationToken::new(),
            beat: Notify::new(),
            strays: AtomicU64::new(0),
            garbage: AtomicU64::new(0),
        };
        (Arc::new(channel), Outgoing { outbox: lines, asides: beside })
    }

    fn calls(&self) -> MutexGuard<'_, AppCalls> {
        self.calls.lock()
    }

    /// Calls the tool that the app knows as `wire`.
    pub(super) async fn call(
        self: &Arc<Self>,
        wire: &Raw,
        parameters: Option<&Raw>,
        peer: Peer,
        token: Option<Raw>,
    ) -> Result<Option<Raw>, CallError> {
        let (answer, outcome) = oneshot::channel();
        let waiting = PendingInvocation { answer, peer, token: token.map(Box::new), progress: 0.0 };
        let id = self.enter(waiting)?;
        let mut ticket = InvocationTicket { channel: self.clone(), id, sent: false };
        let line = one_line(app::invocation(id, wire, parameters));
        self.send(line).await.map_err(|()| self.not_connected())?;
        ticket.sent = true;
        outcome.await.ok().flatten().ok_or_else(|| self.lost())
    }

    fn enter(&self, waiting: PendingInvocation) -> Result<i64, CallError> {
        let mut calls = self.calls();
        if calls.over.is_some() {
            drop(calls);
            return Err(self.not_connected());
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        calls.waiting.insert(id, waiting);
        Ok(id)
    }

    async fn send(&self, line: Bytes) -> Result<(), ()> {
        let size = u32::try_from(line.len().min(OUTBOX_BYTES)).unwrap_or(u32::MAX);
        let sending = async {
            let room = self.room.clone().acquire_many_owned(size).await.map_err(|_| ())?;
            self.outbox.send(Line { bytes: line, _room: Some(room) }).await.map_err(|_| ())
        };
        tokio::select! {
            sent = sending => sent,
            () = self.closing.cancelled() => Err(()),
        }
    }

    /// Sends a line without waiting. It is dropped if the app does not read.
    pub(super) fn aside(&self, line: Bytes) {
        if self.asides.try_send(line).is_err() {
            tracing::debug!(app = %self.name, "a message was dropped: the app does not read");
        }
    }

    /// Sends a line at the start of the connection, when there is certainly room.
    pub(super) fn say(&self, line: Bytes) {
        let _ = self.outbox.try_send(Line { bytes: line, _room: None });
    }

    /// Gives a call its one answer. A second answer is dropped.
    pub(super) fn answer(&self, id: i64, result: Option<Raw>) {
        let waiting = self.calls().waiting.remove(&id);
        match waiting {
            Some(waiting) => drop(waiting.answer.send(Some(result))),
            None => self.count_stray(),
        }
    }

    pub(super) fn progress(&self, progress: Progress) {
        let found = self.calls().waiting.get_mut(&progress.id).map(|call| {
            call.progress = call.progress.max(progress.progress.read().unwrap_or_default());
            (call.peer.clone(), call.token.clone())
        });
        let Some((peer, token)) = found else { return self.count_stray() };
        let Some(token) = token else { return peer.alive() };
        let mut params =
            Raw::empty_object().with("progressToken", &token).with("progress", &progress.progress);
        for (key, value) in [("total", progress.total), ("message", progress.message)] {
            params = value.map_or(params.clone(), |value| params.with(key, &value));
        }
        peer.notify(Notification::new(Method::PROGRESS, params));
    }

    /// Passes a part of a result on, as progress with the content in `_meta`. The protocol requires progress to
    /// grow, so each part adds a step that is smaller than any that an app reports.
    pub(super) fn partial(&self, partial: &Partial) {
        let found = self.calls().waiting.get_mut(&partial.id).map(|call| {
            call.progress += PARTIAL_STEP;
            (call.peer.clone(), call.token.clone(), call.progress)
        });
        let Some((peer, token, progress)) = found else { return self.count_stray() };
        let Some(token) = token else { return peer.alive() };
        let params = Raw::empty_object()
            .with("progressToken", &token)
            .with("progress", &Raw::from_serialize(&progress))
            .with_path(&["_meta", app::PARTIAL], &partial.content);
        peer.notify(Notification::new(Method::PROGRESS, params));
    }

    fn count_stray(&self) {
        let strays = self.strays.fetch_add(1, Ordering::Relaxed) + 1;
        if strays.is_power_of_two() {
            tracing::warn!(app = %self.name, strays, "dropped an answer that came too late or matches no call");
        }
    }

    pub(super) fn count_garbage(&self) {
        self.garbage.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    pub(super) fn garbage(&self) -> u64 {
        self.garbage.load(Ordering::Relaxed)
    }

    pub(super) fn pending(&self) -> usize {
        self.calls().waiting.len()
    }

    pub(super) fn is_over(&self) -> bool {
        self.calls().over.is_some()
    }

    /// Fails every call in flight and refuses new ones. If it is called again, the first reason is kept.
    pub(super) fn end(&self, why: &str) {
        let mut calls = self.calls();
        calls.over.get_or_insert_with(|| why.to_owned());
        let waiting = std::mem::take(&mut calls.waiting);
        drop(calls);
        for call in waiting.into_values() {
            let _ = call.answer.send(None);
        }
        self.closing.cancel();
    }

    pub(super) fn why(&self) -> String {
        self.calls().over.clone().unwrap_or_else(|| "it closed the connection".into())
    }

    fn lost(&self) -> CallError {
        let (name, why) = (&self.name, self.why());
        CallError::lost(format!(
            "app `{name}` was lost while the call was under way: {why}; whether it was carried out is not known. \
             Check that the app is running: it is callable again as soon as it has registered"
        ))
        .at(name)
    }

    fn not_connected(&self) -> CallError {
        let (name, why) = (&self.name, self.why());
        CallError::unavailable(format!("app `{name}` is not connected: {why}; check that it is running"))
            .at(name)
    }

    /// The caller no longer waits for this call.
    fn abandon(&self, id: i64, tell: bool) {
        let abandoned = self.calls().waiting.remove(&id).is_some();
        if abandoned && tell {
            self.aside(app::cancel(id, "the call was cancelled"));
        }
    }
}

/// Held while a call waits for its answer. Dropping it earlier cancels the call.
struct InvocationTicket {
    channel: Arc<AppChannel>,
    id: i64,
    sent: bool,
}

impl Drop for InvocationTicket {
    fn drop(&mut self) {
        self.channel.abandon(self.id, self.sent);
    }
}

/// Writes queued lines until the connection ends. It is the only writer, so lines are never interleaved.
pub(super) async fn write<W: AsyncWrite + Unpin>(
    channel: Arc<AppChannel>,
    mut writer: W,
    outgoing: Outgoing,
) {
    tokio::select! {
        () = write_lines(&mut writer, outgoing) => channel.end("it takes no more messages"),
        () = channel.closing.cancelled() => {}
    }
    let _ = writer.shutdown().await;
}

async fn write_lines<W: AsyncWrite + Unpin>(writer: &mut W, mut outgoing: Outgoing) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut buffer = BytesMut::new();
    loop {
        let alive = tokio::select! {
            biased;
            count = outgoing.outbox.recv_many(&mut batch, BATCH) => count > 0,
            Some(line) = outgoing.asides.recv() => { batch.push(Line { bytes: line, _room: None }); true }
        };
        if !alive {
            return;
        }
        for line in &batch {
            buffer.extend_from_slice(&line.bytes);
            buffer.extend_from_slice(b"\n");
        }
        if writer.write_all(&buffer).await.is_err() || writer.flush().await.is_err() {
            return;
        }
        batch.clear();
        buffer = BytesMut::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_call_costs_about_a_hundred_bytes() {
        assert!(size_of::<(i64, PendingInvocation)>() + size_of::<InvocationOutcome>() <= 100);
    }
}
