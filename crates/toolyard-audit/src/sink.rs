//! The audit as a sink of the gateway's events.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use toolyard_core::event::{Event, Sink, What};
use toolyard_core::ledger::{Captured, OpenCall, Record};
use toolyard_model::BoxFuture;
use toolyard_proto::CallError;

use crate::entry::{Entry, What as Kind};
use crate::store::Store;
use crate::writer::{Clock, Counts, Kept, Message, Writer};
use crate::{AuditError, AuditOptions, Durability};

/// How many records can wait for the writer.
const QUEUE: usize = 1_024;

/// Records calls. What is queued is written before [`Audit::end`] returns.
pub struct Audit {
    queue: Mutex<Option<mpsc::Sender<Message>>>,
    kept: Arc<Kept>,
    options: AuditOptions,
    counts: Arc<Counts>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Audit {
    /// Opens or makes the database and starts the thread that writes to it.
    pub fn open(path: &Path, options: AuditOptions) -> Result<Arc<Self>, AuditError> {
        Self::open_with(path, options, Clock::default())
    }

    fn open_with(path: &Path, options: AuditOptions, clock: Clock) -> Result<Arc<Self>, AuditError> {
        let store = Store::open(path, options.durability)?;
        let (queue, messages) = mpsc::channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let mut run = [0; 8];
        // Without randomness, calls of two runs may have the same number.
        let _ = getrandom::fill(&mut run);
        let run = HEXLOWER.encode(&run);
        let kept = Arc::new(Kept::default());
        let (kept_too, counted) = (kept.clone(), counts.clone());
        let writer = Writer { store, queue: messages, kept: kept_too, run, options, counts: counted, clock };
        let waits = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let thread = std::thread::Builder::new().name("audit".into()).spawn(move || writer.run(&waits))?;
        let (queue, thread) = (Mutex::new(Some(queue)), Mutex::new(Some(thread)));
        Ok(Arc::new(Self { queue, kept, options, counts, thread }))
    }

    /// Writes what is queued and ends the thread. Later events are dropped. May take a while, so not for async code.
    pub fn end(&self) {
        self.queue.lock().take();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn queue(&self) -> Option<mpsc::Sender<Message>> {
        self.queue.lock().clone()
    }

    fn add(&self, entry: Entry) {
        if !self.try_add(entry) {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// With [`Durability::Full`] only refused requests can be dropped: a client can make any number of them, and nothing
    /// waits for their records. All other records belong to a call or a tool that is in the audit already.
    fn try_add(&self, entry: Entry) -> bool {
        let queue = self.queue.lock();
        let Some(queue) = &*queue else { return false };
        if self.options.durability == Durability::Normal || entry.what == Kind::Refused {
            return queue.try_send(Message::Record(Box::new(entry), None)).is_ok();
        }
        self.kept.add(entry);
        // A queue without room has messages, after which the writer looks.
        let _ = queue.try_send(Message::Look);
        true
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
            let message = Message::Record(Box::new(entry), Some(committed));
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant, SystemTime};

    use rusqlite::Connection;

    use super::*;
    use crate::{FILE, Reader};

    /// More than the queue and a batch hold.
    const MANY: u64 = 3_000;

    /// Adds many records while another program holds the database, so that the writer cannot go on; then lets it
    /// write. The audit, and how many records it has.
    fn overloaded(durability: Durability, what: Kind) -> (Arc<Audit>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let audit = Audit::open(&path, AuditOptions { durability, ..AuditOptions::default() }).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        for _ in 0..MANY {
            audit.add(Entry::example(what, SystemTime::now()));
        }
        other.execute_batch("ROLLBACK").unwrap();
        audit.end();
        let verified = Reader::open(&path).unwrap().verify().unwrap();
        assert_eq!(verified.broken, None);
        (audit, verified.records)
    }

    #[test]
    fn under_overload_normal_drops_records_and_counts_each_of_them() {
        let (audit, records) = overloaded(Durability::Normal, Kind::Ended);
        let dropped = audit.counts.dropped.load(Ordering::Relaxed);
        assert!(dropped > 0, "all {MANY} records found room");
        assert_eq!(records + dropped, MANY);
        let mut metrics = String::new();
        audit.metrics(&mut metrics);
        assert!(metrics.contains(&format!("\ntoolyard_audit_dropped_total {dropped}\n")), "{metrics}");
        assert!(metrics.contains(&format!("\ntoolyard_audit_records_total {records}\n")), "{metrics}");
    }

    #[test]
    fn under_overload_full_loses_no_record_of_a_call_that_has_ended() {
        for what in [Kind::Ended, Kind::Decided] {
            let (audit, records) = overloaded(Durability::Full, what);
            assert_eq!((records, audit.counts.dropped.load(Ordering::Relaxed)), (MANY, 0), "{what:?}");
        }
    }

    #[test]
    fn under_overload_full_counts_the_refused_requests_that_it_drops() {
        let (audit, records) = overloaded(Durability::Full, Kind::Refused);
        let dropped = audit.counts.dropped.load(Ordering::Relaxed);
        assert!(dropped > 0 && records + dropped == MANY, "{records} records, {dropped} dropped");
    }

    #[test]
    fn a_record_after_the_end_is_counted_as_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let options = AuditOptions { durability: Durability::Full, ..AuditOptions::default() };
        let audit = Audit::open(&folder.path().join(FILE), options).unwrap();
        audit.end();
        audit.add(Entry::example(Kind::Ended, SystemTime::now()));
        assert_eq!(audit.counts.dropped.load(Ordering::Relaxed), 1);
    }

    const DAY: Duration = Duration::from_hours(24);

    /// Waits until the audit has exactly so many records.
    fn wait_for_records(path: &Path, wanted: u64) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let verified = Reader::open(path).unwrap().verify().unwrap();
            if verified.records == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "{} records instead of {wanted}", verified.records);
            std::thread::yield_now();
        }
    }

    #[test]
    fn old_records_are_removed_at_the_start_although_nothing_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let options = AuditOptions { keep: 7 * DAY, ..AuditOptions::default() };
        let now = SystemTime::now();
        let entries = [now - 9 * DAY, now - 8 * DAY, now].map(|at| Entry::example(Kind::Ended, at));
        Store::open(&path, Durability::Normal).unwrap().write(&entries, "before", &options).unwrap();
        let audit = Audit::open(&path, options).unwrap();
        wait_for_records(&path, 1);
        audit.end();
    }

    #[test]
    fn records_that_become_too_old_while_the_gateway_is_idle_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let options = AuditOptions { keep: 7 * DAY, ..AuditOptions::default() };
        let (start, days) = (SystemTime::now(), Arc::new(AtomicU64::new(0)));
        let turned = days.clone();
        let now = move || start + Duration::from_hours(24 * turned.load(Ordering::Relaxed));
        let clock = Clock { every: Duration::from_millis(5), now: Box::new(now) };
        let audit = Audit::open_with(&path, options, clock).unwrap();
        audit.add(Entry::example(Kind::Ended, start));
        wait_for_records(&path, 1);
        days.store(8, Ordering::Relaxed);
        wait_for_records(&path, 0);
        audit.end();
    }
}
