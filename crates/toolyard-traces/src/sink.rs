//! Traces as a sink of the gateway's events: gives each call its place in a trace, and passes on those that have ended.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use toolyard_core::event::{Event, Sink};
use toolyard_core::ledger::spans::{Caller, SpanId, TraceId, caller};
use toolyard_core::ledger::{Captured, OpenCall, Record, SpanContext};
use toolyard_model::{BoxFuture, Scope};
use toolyard_proto::CallError;

use crate::TracesOptions;
use crate::export::{Counts, Exporter};
use crate::finished::Finished;

/// How many calls that have ended can wait for the export.
const QUEUE: usize = 4_096;

type OpenSpans = HashMap<u64, Option<(TraceId, SpanId)>>;

/// Exports calls as spans, on a task of the scope that it is given.
pub struct Traces {
    queue: Mutex<Option<mpsc::Sender<Finished>>>,
    /// The calls under way, by their number, so that calls that a tool makes are part of its trace. `None` for a call that
    /// is not recorded: those that its tool makes are not recorded, either.
    open: Mutex<OpenSpans>,
    sample: f64,
    counts: Arc<Counts>,
}

impl Traces {
    pub fn start(options: TracesOptions, scope: &Scope) -> Arc<Self> {
        let (queue, finished) = mpsc::channel(QUEUE);
        let (sample, counts) = (options.sample, Arc::new(Counts::default()));
        scope.spawn(Exporter::new(options, finished, counts.clone()).run());
        Arc::new(Self { queue: Mutex::new(Some(queue)), open: Mutex::default(), sample, counts })
    }

    /// Accepts no more spans. The task ends when what is queued is exported or dropped.
    pub fn end(&self) {
        self.queue.lock().take();
    }

    fn open(&self) -> MutexGuard<'_, OpenSpans> {
        self.open.lock()
    }

    /// The place of a call: in the trace of its caller, of the call that it is made for, or in a new one.
    fn context_of(&self, call: &OpenCall) -> Option<SpanContext> {
        let found = match caller(&call.params) {
            Caller::Recorded(trace, span) => Some((trace, span)),
            Caller::NotRecorded => return None,
            Caller::None => match call.trace.parent.and_then(|parent| self.open().get(&parent).copied()) {
                Some(None) => return None,
                parent => parent.flatten(),
            },
        };
        let (mut trace, mut span) = ([0; 16], [0; 8]);
        getrandom::fill(&mut trace).and_then(|()| getrandom::fill(&mut span)).ok()?;
        if let Some((trace, parent)) = found {
            return Some(SpanContext::new(trace, span, Some(parent)));
        }
        is_sampled(&trace, self.sample).then(|| SpanContext::new(trace, span, None))
    }
}

/// Whether a new trace is recorded. Its id is random.
#[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
fn is_sampled(trace: &TraceId, sample: f64) -> bool {
    let [a, b, c, d, ..] = *trace;
    sample >= 1.0 || f64::from(u32::from_be_bytes([a, b, c, d])) < sample * (u64::from(u32::MAX) + 1) as f64
}

impl Sink for Traces {
    fn take(&self, _: &Event) {}

    fn call_opened(&self, call: &Arc<OpenCall>) -> Option<BoxFuture<Result<(), CallError>>> {
        let context = self.context_of(call);
        let span = context.as_ref().map(|context| (context.trace, context.span));
        self.open().insert(call.trace.call, span);
        if let Some(context) = context {
            call.trace(context);
        }
        None
    }

    fn call_ended(&self, call: &Arc<OpenCall>, record: &Record, _: Option<&Captured>) {
        self.open().remove(&call.trace.call);
        let Some(finished) = Finished::of(call, record) else { return };
        let queue = self.queue.lock().clone();
        if queue.is_none_or(|queue| queue.try_send(finished).is_err()) {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn metrics(&self, out: &mut String) {
        let rows = [
            ("toolyard_traces_exported_total", "Calls that were exported as spans.", &self.counts.exported),
            (
                "toolyard_traces_dropped_total",
                "Calls whose spans found no room in the queue or could not be delivered.",
                &self.counts.dropped,
            ),
        ];
        for (name, help, count) in rows {
            let value = count.load(Ordering::Relaxed);
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Traces")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_new_traces_is_sampled() {
        let ids = || (0..=255_u8).map(|first| [first; 16]);
        let count = |sample| ids().filter(|id| is_sampled(id, sample)).count();
        assert_eq!([count(0.0), count(0.25), count(1.0)], [0, 64, 256]);
    }
}
