//! The thread that writes: it takes what is queued, commits it together, and confirms it to the calls that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{mpsc, oneshot};

use crate::entry::Entry;
use crate::store::Store;
use crate::{AuditOptions, Durability};

/// How many records are committed together.
const BATCH: usize = 256;
/// How long the first record of a batch waits for others, where no call waits for it.
const GATHER: Duration = Duration::from_millis(50);
/// How often old records are looked for.
const PRUNE_EVERY: Duration = Duration::from_mins(1);

/// One record for the writer, and where to confirm that it is committed.
pub(crate) struct Message {
    pub(crate) entry: Entry,
    pub(crate) committed: Option<oneshot::Sender<Result<(), String>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failed: AtomicU64,
}

pub(crate) struct Writer {
    pub(crate) store: Store,
    pub(crate) queue: mpsc::Receiver<Message>,
    pub(crate) run: String,
    pub(crate) options: AuditOptions,
    pub(crate) counts: Arc<Counts>,
}

impl Writer {
    /// Writes until all senders are gone.
    pub(crate) fn run(mut self) {
        let mut pruned: Option<Instant> = None;
        while let Some(first) = self.queue.blocking_recv() {
            let batch = self.gather(first);
            self.commit(batch);
            if pruned.is_none_or(|pruned| pruned.elapsed() >= PRUNE_EVERY) {
                pruned = Some(Instant::now());
                self.prune();
            }
        }
    }

    fn gather(&mut self, first: Message) -> Vec<Message> {
        let mut batch = vec![first];
        let waits = |batch: &[Message]| batch.iter().any(|message| message.committed.is_some());
        let until = Instant::now() + GATHER;
        while batch.len() < BATCH {
            match self.queue.try_recv() {
                Ok(message) => batch.push(message),
                Err(_) if waits(&batch) || self.options.durability == Durability::Full => break,
                Err(mpsc::error::TryRecvError::Disconnected) => break,
                Err(mpsc::error::TryRecvError::Empty) if Instant::now() >= until => break,
                Err(mpsc::error::TryRecvError::Empty) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        batch
    }

    fn commit(&mut self, batch: Vec<Message>) {
        let (entries, waiting): (Vec<Entry>, Vec<_>) =
            batch.into_iter().map(|message| (message.entry, message.committed)).unzip();
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

    fn prune(&mut self) {
        loop {
            match self.store.prune(SystemTime::now(), &self.options) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "old records of the audit could not be removed");
                    return;
                }
            }
        }
    }
}
