//! The audit as a sink of the gateway's events.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use data_encoding::HEXLOWER;
use tokio::sync::{mpsc, oneshot};
use toolyard_core::event::{Event, Sink, What};
use toolyard_core::ledger::{Captured, OpenCall, Record};
use toolyard_model::BoxFuture;
use toolyard_proto::CallError;

use crate::entry::Entry;
use crate::store::Store;
use crate::writer::{Counts, Message, Writer};
use crate::{AuditError, AuditOptions, Durability};

/// How many records can wait for the writer.
const QUEUE: usize = 1_024;

/// Records calls. What is queued is written before [`Audit::end`] returns.
pub struct Audit {
    queue: Mutex<Option<mpsc::Sender<Message>>>,
    options: AuditOptions,
    counts: Arc<Counts>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Audit {
    /// Opens or makes the database and starts the thread that writes to it.
    pub fn open(path: &Path, options: AuditOptions) -> Result<Arc<Self>, AuditError> {
        let store = Store::open(path, options.durability)?;
        let (queue, messages) = mpsc::channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let mut run = [0; 8];
        // Without randomness, calls of two runs may have the same number.
        let _ = getrandom::fill(&mut run);
        let run = HEXLOWER.encode(&run);
        let writer = Writer { store, queue: messages, run, options, counts: counts.clone() };
        let thread = std::thread::Builder::new().name("audit".into()).spawn(move || writer.run())?;
        let (queue, thread) = (Mutex::new(Some(queue)), Mutex::new(Some(thread)));
        Ok(Arc::new(Self { queue, options, counts, thread }))
    }

    /// Writes what is queued and ends the thread. Later events are dropped. May take a while, so not for async code.
    pub fn end(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn queue(&self) -> Option<mpsc::Sender<Message>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, entry: Entry) {
        let queued =
            self.queue().is_some_and(|queue| queue.try_send(Message { entry, committed: None }).is_ok());
        if !queued {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Sink for Audit {
    fn take(&self, event: &Event) {
        let entry = match &event.what {
            What::Refused { record, rule } => Some(Entry::refused(record, rule.as_deref())),
            _ => Entry::decision(event),
        };
        if let Some(entry) = entry {
            self.add(entry);
        }
    }

    fn call_opened(&self, call: &Arc<OpenCall>) -> Option<BoxFuture<Result<(), CallError>>> {
        if self.options.durability == Durability::Normal {
            return None;
        }
        let (queue, entry) = (self.queue(), Entry::opened(call));
        Some(Box::pin(async move {
            let failed = |why: &str| {
                CallError::unavailable(format!(
                    "the call was not made because the audit cannot record it: {why}"
                ))
            };
            let queue = queue.ok_or_else(|| failed("it has ended"))?;
            let (committed, commit) = oneshot::channel();
            let message = Message { entry, committed: Some(committed) };
            queue.send(message).await.map_err(|_| failed("it has ended"))?;
            commit.await.map_err(|_| failed("it has ended"))?.map_err(|error| failed(&error))
        }))
    }

    fn call_ended(&self, call: &Arc<OpenCall>, record: &Record, answer: Option<&Captured>) {
        self.add(Entry::ended(call, record, answer));
    }

    fn wants_answers(&self) -> bool {
        true
    }

    fn metrics(&self, out: &mut String) {
        let rows = [
            ("toolyard_audit_records_total", "Records that were written.", &self.counts.written),
            (
                "toolyard_audit_dropped_total",
                "Records that found no room in the queue.",
                &self.counts.dropped,
            ),
            ("toolyard_audit_failed_total", "Records that could not be written.", &self.counts.failed),
        ];
        for (name, help, count) in rows {
            let value = count.load(Ordering::Relaxed);
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        }
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("options", &self.options).finish_non_exhaustive()
    }
}
