//! What calls leave to be done when nobody waits for them any more: a link to close, a task to cancel. Run by
//! the upstream's own supervisor, so that it ends with it.

use std::sync::{Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use toolyard_transport::BoxFuture;

/// How many may wait to be taken up; beyond that they are dropped, which is what the end of a link is anyway.
const WAITING: usize = 256;

pub(super) struct Errands {
    queue: mpsc::Sender<BoxFuture<()>>,
    waiting: Mutex<Option<mpsc::Receiver<BoxFuture<()>>>>,
}

impl Default for Errands {
    fn default() -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        Self { queue, waiting: Mutex::new(Some(waiting)) }
    }
}

impl Errands {
    pub(super) fn add(&self, errand: BoxFuture<()>) {
        let _ = self.queue.try_send(errand);
    }

    /// Runs them side by side, for as long as it is polled. Only the first to call it has something to do.
    pub(super) async fn run(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut waiting) = waiting else { return };
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(errand) = waiting.recv() => running.push(errand),
                Some(()) = running.next() => {}
                else => return,
            }
        }
    }
}
