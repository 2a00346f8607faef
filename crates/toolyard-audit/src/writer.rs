//! The thread that writes: it takes what is queued, commits it together, and confirms it to the calls that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::entry::Entry;
use crate::store::Store;
use crate::{AuditOptions, Durability};

/// How many records are committed together.
const BATCH: usize = 256;
/// How long the first record of a batch waits for others, where no call waits for it.
const GATHER: Duration = Duration::from_millis(50);
/// How often old records are removed, whether or not there are new ones.
const PRUNE_EVERY: Duration = Duration::from_mins(1);

/// Where to confirm that a record is committed.
pub(crate) type Committed = oneshot::Sender<Result<(), String>>;

pub(crate) enum Message {
    Record(Box<Entry>, Option<Committed>),
    /// There are records in [`Kept`].
    Look,
}

/// Records that must not be dropped and whose calls cannot wait. There are at most as many as calls that end while one
/// batch is written, since a new call begins only when its first record is committed.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Vec<Entry>>);

impl Kept {
    pub(crate) fn add(&self, entry: Entry) {
        self.0.lock().push(entry);
    }

    fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.0.lock())
    }
}

type Batch = Vec<(Entry, Option<Committed>)>;

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// How often old records are removed, and the clock that decides which are old.
pub(crate) struct Clock {
    pub(crate) every: Duration,
    pub(crate) now: Box<dyn Fn() -> SystemTime + Send>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { every: PRUNE_EVERY, now: Box::new(SystemTime::now) }
    }
}

pub(crate) struct Writer {
    pub(crate) store: Store,
    pub(crate) queue: mpsc::Receiver<Message>,
    pub(crate) kept: Arc<Kept>,
    pub(crate) run: String,
    pub(crate) options: AuditOptions,
    pub(crate) counts: Arc<Counts>,
    pub(crate) clock: Clock,
}

impl Writer {
    /// Writes until all senders are gone. Removes old records at once and then at intervals, also while nothing is
    /// written. `waits` is the runtime in which this thread waits for messages and for the next interval.
    pub(crate) fn run(mut self, waits: &Runtime) {
        let mut next_prune = Instant::now();
        loop {
            // What is queued is received even if it is time to remove something.
            match waits.block_on(async { timeout_at(next_prune, self.queue.recv()).await }) {
                Ok(Some(first)) => {
                    let batch = self.gather(first);
                    self.commit(batch);
                }
                Ok(None) => break,
                Err(_) => {}
            }
            if Instant::now() >= next_prune {
                let has_more = self.prune();
                next_prune = Instant::now() + if has_more { Duration::ZERO } else { self.clock.every };
            }
        }
        // The last of them may have found no room for its message.
        let last = self.kept.take().into_iter().map(|entry| (entry, None)).collect();
        self.commit(last);
    }

    fn gather(&mut self, first: Message) -> Batch {
        let mut batch = Batch::new();
        let mut next = Ok(first);
        let until = Instant::now() + GATHER;
        loop {
            match next {
                Ok(Message::Record(entry, committed)) => batch.push((*entry, committed)),
                Ok(Message::Look) => {}
                Err(_) if self.options.durability == Durability::Full => break,
                Err(mpsc::error::TryRecvError::Disconnected) => break,
                Err(mpsc::error::TryRecvError::Empty) if Instant::now() >= until => break,
                Err(mpsc::error::TryRecvError::Empty) => std::thread::sleep(Duration::from_millis(5)),
            }
            if batch.len() >= BATCH {
                break;
            }
            next = self.queue.try_recv();
        }
        batch.extend(self.kept.take().into_iter().map(|entry| (entry, None)));
        batch
    }

    fn commit(&mut self, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        let (entries, waiting): (Vec<Entry>, Vec<_>) = batch.into_iter().unzip();
        let written = self.store.write(&entries, &self.run, &self.options).map_err(|error| error.to_string());
        let count = entries.len() as u64;
        match &written {
            Ok(()) => self.counts.written.fetch_add(count, Ordering::Relaxed),
            Err(error) => {
                tracing::error!(records = count, error, "the audit could not be written");
                self.counts.failed.fetch_add(count, Ordering::Relaxed)
            }
        };
        for committed in waiting.into_iter().flatten() {
            let _ = committed.send(written.clone());
        }
    }

    /// Removes some of the old records. Returns whether there are more.
    fn prune(&mut self) -> bool {
        self.store.prune((self.clock.now)(), &self.options).unwrap_or_else(|error| {
            tracing::warn!(%error, "old records of the audit could not be removed");
            false
        })
    }
}
