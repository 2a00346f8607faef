//! The calls under way: what each asks for, how far it is, and a way for an operator to cancel it. Each call writes to
//! a place of its own, so that calls do not wait for each other here.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::time::Instant;
use toolyard_model::Origin;
use toolyard_proto::{Params, Revision};

use super::{Record, SpanContext};
use crate::call::Trace;

/// How many calls under way are shown; more are only counted.
const PLACES: usize = 1_024;
/// How many places are tried before a call is only counted.
const TRIES: usize = 8;
/// How many notes of steps are kept of one call.
const MOST_NOTES: usize = 32;
const NO_REVISION: u8 = u8::MAX;

/// A point on the way of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// All steps have passed it on.
    Passed,
    /// There is a link to its upstream.
    Leased,
    /// The upstream has answered, at least with the head of its answer.
    Answered,
    /// The call has got its turn from every limit; not reached without limits.
    Queued,
    /// Hooks before the call have run; not reached without them.
    Hooked,
    /// Hooks after the call have run; not reached without them.
    Reviewed,
}

impl Mark {
    const COUNT: usize = 6;
}

/// The decision of a step.
#[derive(Clone, Debug)]
pub struct Note {
    pub step: &'static str,
    pub text: String,
    /// Microseconds since the call was opened.
    pub at: u64,
}

/// One call from the moment it was opened. It outlives the call where its details are kept.
pub struct OpenCall {
    /// As it was opened; [`trace_now`](Self::trace_now) counts what has happened since.
    pub trace: Trace,
    /// As it was opened: without status and duration.
    pub record: Record,
    pub origin: Arc<Origin>,
    pub params: Params,
    pub(crate) started: Instant,
    /// Microseconds since the start plus one; zero where the point is not reached.
    marks: [AtomicU64; Mark::COUNT],
    notes: Mutex<Vec<Note>>,
    spans: OnceLock<Box<SpanContext>>,
    attempts: AtomicU32,
    rounds: AtomicU32,
    is_cancelled: AtomicBool,
    waker: AtomicWaker,
    place: AtomicUsize,
    /// The index of the upstream's protocol version; [`NO_REVISION`] while there is no link.
    upstream_revision: AtomicU8,
}

impl OpenCall {
    pub(super) fn new(trace: Trace, record: Record, origin: Arc<Origin>, params: Params) -> Self {
        Self {
            trace,
            record,
            origin,
            params,
            started: Instant::now(),
            marks: Default::default(),
            notes: Mutex::default(),
            spans: OnceLock::new(),
            attempts: AtomicU32::new(1),
            rounds: AtomicU32::new(trace.round),
            is_cancelled: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            place: AtomicUsize::new(usize::MAX),
            upstream_revision: AtomicU8::new(NO_REVISION),
        }
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The call has reached this point.
    pub fn reach(&self, mark: Mark) {
        self.marks[mark as usize].store(self.micros() + 1, Ordering::Relaxed);
    }

    /// There is a link to its upstream, which speaks this protocol version.
    pub(crate) fn leased(&self, revision: Revision) {
        self.upstream_revision.store(revision as u8, Ordering::Relaxed);
        self.reach(Mark::Leased);
    }

    /// The protocol version of its upstream, once there is a link.
    pub fn upstream_revision(&self) -> Option<Revision> {
        Revision::ALL.get(usize::from(self.upstream_revision.load(Ordering::Relaxed))).copied()
    }

    /// When it reached this point, in microseconds since it was opened.
    pub fn reached(&self, mark: Mark) -> Option<u64> {
        self.marks[mark as usize].load(Ordering::Relaxed).checked_sub(1)
    }

    /// Makes the call part of a trace. Only the first context counts.
    pub fn trace(&self, context: SpanContext) {
        let _ = self.spans.set(Box::new(context));
    }

    /// Its place in a trace, if it is part of one.
    pub fn spans(&self) -> Option<&SpanContext> {
        self.spans.get().map(|spans| &**spans)
    }

    /// The parameters as they are sent to this upstream.
    pub(crate) fn begin_send(&self, upstream: &Arc<str>, params: Params) -> Params {
        match self.spans() {
            Some(spans) => spans.begin(upstream, self.micros(), params),
            None => params,
        }
    }

    /// Records that the last exchange was answered in full.
    pub(crate) fn end_send(&self) {
        if let Some(spans) = self.spans() {
            spans.end(self.micros());
        }
    }

    /// Records what a step decided, for the page of this call. A step that passes a call on unchanged need not.
    pub fn note(&self, step: &'static str, text: impl Into<String>) {
        let note = Note { step, text: text.into(), at: self.micros() };
        let mut notes = self.notes_mut();
        if notes.len() < MOST_NOTES {
            notes.push(note);
        }
    }

    /// Records that the call was sent once more, for this reason.
    pub fn sent_again(&self, why: impl Into<String>) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        self.note("retry", why);
    }

    /// How often it was sent.
    pub fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// The client has answered what it was asked during the call: the next round begins.
    pub(crate) fn was_answered(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    /// The round that it is in.
    pub fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Which call it is, with its round and attempt at this moment.
    pub fn trace_now(&self) -> Trace {
        Trace { round: self.rounds(), attempt: self.attempts(), ..self.trace }
    }

    fn notes_mut(&self) -> MutexGuard<'_, Vec<Note>> {
        self.notes.lock()
    }

    pub fn notes(&self) -> Vec<Note> {
        self.notes_mut().clone()
    }

    /// Ends the call; its client gets an error.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Ready once an operator has cancelled the call. One task at a time may wait.
    pub(crate) fn poll_cancelled(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_cancelled.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.waker.register(cx.waker());
        if self.is_cancelled.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    pub(crate) fn cancelled(self: &Arc<Self>) -> Cancelled {
        Cancelled(self.clone())
    }

    pub fn to_json(&self) -> Value {
        let mut json = self.record.to_json();
        for key in ["status", "code", "error"] {
            json.as_object_mut().map(|json| json.remove(key));
        }
        json["durationMs"] = json!(to_milliseconds(self.micros()));
        json["attempts"] = json!(self.attempts());
        json["call"] = json!(self.trace.call);
        json["round"] = json!(self.rounds());
        json["parent"] = json!(self.trace.parent);
        json["state"] = json!("open");
        json
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(crate) fn to_milliseconds(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

impl fmt::Debug for OpenCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenCall").field("trace", &self.trace).finish_non_exhaustive()
    }
}

/// Waits until an operator cancels a call.
pub(crate) struct Cancelled(Arc<OpenCall>);

impl Future for Cancelled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_cancelled(cx)
    }
}

pub(super) struct OpenCalls {
    places: Box<[Mutex<Option<Arc<OpenCall>>>]>,
    next: AtomicUsize,
}

impl Default for OpenCalls {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Mutex::default()).collect(), next: AtomicUsize::new(0) }
    }
}

impl OpenCalls {
    pub(super) fn add(&self, call: &Arc<OpenCall>) {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        for place in (0..TRIES).map(|off| (start + off) % PLACES) {
            if let Some(mut free) = self.places[place].try_lock()
                && free.is_none()
            {
                *free = Some(call.clone());
                call.place.store(place, Ordering::Relaxed);
                return;
            }
        }
    }

    pub(super) fn remove(&self, call: &OpenCall) {
        if let Some(place) = self.places.get(call.place.load(Ordering::Relaxed)) {
            place.lock().take();
        }
    }

    /// The calls under way, the oldest first.
    pub(super) fn all(&self) -> Vec<Arc<OpenCall>> {
        let read = |place: &Mutex<Option<Arc<OpenCall>>>| place.lock().clone();
        let mut all: Vec<Arc<OpenCall>> = self.places.iter().filter_map(read).collect();
        all.sort_by_key(|call| call.trace.call);
        all
    }
}
