//! The writing side of a stream connection: one bounded queue, one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolyard_proto::{Id, Notification, Raw};

use crate::peer::{Ask, AskError, Back};
use crate::serve::calls::Outlet;
use crate::serve::endpoint::Counts;
use crate::serve::modern::{cannot_ask, fit};
use crate::serve::outbox::{ROOM, Weight};
use crate::serve::rendered::Rendered;
use crate::{BoxFuture, Origin, Scope};

/// Pieces smaller than this are gathered into one write.
const GATHER: usize = 16 * 1024;

pub(super) struct Line {
    queue: mpsc::Sender<Rendered>,
    counts: Arc<Counts>,
}

impl Line {
    pub(super) fn new(counts: Arc<Counts>) -> (Self, mpsc::Receiver<Rendered>) {
        let (queue, receiver) = mpsc::channel(2 * ROOM);
        (Self { queue, counts }, receiver)
    }
}

/// Waiting for room is bounded by the writer, which gives up on a client that does not read.
impl Outlet for Line {
    fn tell(&self, message: Rendered, weight: Weight) {
        // The last places are not for what may be lost.
        let full = weight == Weight::Light && self.queue.capacity() <= ROOM;
        if full || self.queue.try_send(message).is_err() {
            Counts::add(&self.counts.dropped);
        }
    }

    fn ask(&self, message: Rendered) -> BoxFuture<bool> {
        let queue = self.queue.clone();
        Box::pin(async move { queue.send(message).await.is_ok() })
    }

    fn answer(&self, message: Rendered) -> BoxFuture<()> {
        let queue = self.queue.clone();
        Box::pin(async move {
            if queue.send(message).await.is_err() {
                tracing::debug!("an answer came after its connection had ended");
            }
        })
    }
}

/// The line as one call sees it: silent once the call has ended.
pub(super) struct CallLine {
    line: Arc<Line>,
    over: AtomicBool,
}

impl CallLine {
    pub(super) fn new(line: Arc<Line>) -> Arc<Self> {
        Arc::new(Self { line, over: AtomicBool::new(false) })
    }
}

impl Outlet for CallLine {
    fn tell(&self, message: Rendered, weight: Weight) {
        if !self.over.load(Ordering::Relaxed) {
            self.line.tell(message, weight);
        }
    }

    fn ask(&self, message: Rendered) -> BoxFuture<bool> {
        if self.over.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(false));
        }
        self.line.ask(message)
    }

    fn answer(&self, message: Rendered) -> BoxFuture<()> {
        self.over.store(true, Ordering::Relaxed);
        self.line.answer(message)
    }

    fn no_answer(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The way back to a modern client on a stream.
pub(super) struct LineBack {
    pub(super) origin: Arc<Origin>,
    pub(super) subscription: Option<Id>,
    pub(super) outlet: Arc<dyn Outlet>,
}

impl Back for LineBack {
    fn notify(&self, notification: Notification) {
        if let Some(notification) = fit(&self.origin, self.subscription.as_ref(), notification) {
            let weight = Weight::of(&notification.method);
            self.outlet.tell(Rendered::notification(notification), weight);
        }
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        cannot_ask(&ask)
    }
}

/// Writes until `connection` ends and all that was said by then is written, or the client takes nothing for
/// `patience`.
pub(super) async fn write_lines(
    mut queue: mpsc::Receiver<Rendered>,
    mut write: impl AsyncWrite + Unpin,
    patience: Duration,
    connection: Scope,
) {
    let mut ready = Vec::with_capacity(64);
    loop {
        let count = tokio::select! {
            biased;
            count = queue.recv_many(&mut ready, 64) => count,
            // Others may still hold the line; what they say from now on is not taken.
            () = connection.ended(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        };
        if count == 0 {
            break;
        }
        for bytes in gather(&mut ready) {
            if let Err(error) = write_all(&mut write, bytes, patience).await {
                return tracing::debug!(%error, "a stream connection cannot be written to");
            }
        }
        if !matches!(timeout(patience, write.flush()).await, Ok(Ok(()))) {
            return;
        }
    }
    // The other side may be gone already.
    let _ = timeout(patience, write.shutdown()).await;
}

/// The lines as few pieces, without copying the large ones.
fn gather(ready: &mut Vec<Rendered>) -> Vec<Bytes> {
    let (mut out, mut small) = (Vec::new(), BytesMut::new());
    for part in ready.drain(..).flat_map(Rendered::into_line) {
        if part.len() < GATHER {
            small.extend_from_slice(&part);
        } else {
            out.push(small.split().freeze());
            out.push(part);
        }
    }
    out.push(small.freeze());
    out
}

/// The clock starts anew with every byte that is taken.
async fn write_all(
    write: &mut (impl AsyncWrite + Unpin),
    mut bytes: Bytes,
    patience: Duration,
) -> std::io::Result<()> {
    while !bytes.is_empty() {
        if timeout(patience, write.write_buf(&mut bytes)).await?? == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}
