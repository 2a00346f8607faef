//! The writing side of a stream connection: one queue, bounded in messages and in bytes, and one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolyard_model::peer::{Ask, AskError, Back};
use toolyard_model::{BoxFuture, Origin, Scope};
use toolyard_proto::{Id, Notification, Raw};

use crate::calls::Outlet;
use crate::endpoint::Counts;
use crate::modern::{cannot_ask, filter_notification};
use crate::outbox::{ROOM, Weight};
use crate::reply::Rendered;

/// Pieces smaller than this are gathered into one write.
const GATHER: usize = 16 * 1024;

pub(super) struct Line {
    queue: mpsc::Sender<Waiting>,
    /// The size of the queued notifications. Answers are not counted: calls are limited, and a large answer
    /// must not cause a change notification to be dropped.
    queued_bytes: Arc<AtomicUsize>,
    counts: Arc<Counts>,
}

/// A message in the queue, and how much of `queued_bytes` it is.
struct Waiting {
    message: Rendered,
    counted: usize,
}

/// The other end of a [`Line`].
pub(super) struct Queue {
    receiver: mpsc::Receiver<Waiting>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Line {
    pub(super) fn new(counts: Arc<Counts>) -> (Self, Queue) {
        let (queue, receiver) = mpsc::channel(2 * ROOM);
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        (Self { queue, queued_bytes: queued_bytes.clone(), counts }, Queue { receiver, queued_bytes })
    }

    /// Waits until there is room for one more answer. Waiters are served in order, so every answer that was waiting
    /// before is in the queue by then.
    pub(super) async fn has_caught_up(&self) {
        drop(self.queue.reserve().await);
    }

    fn has_room(&self, weight: Weight) -> bool {
        let waiting = (2 * ROOM).saturating_sub(self.queue.capacity());
        weight.fits(waiting, self.queued_bytes.load(Ordering::Relaxed))
    }
}

/// Waiting for room is bounded by the writer, which gives up on a client that does not read.
impl Outlet for Line {
    fn tell(&self, message: Rendered, weight: Weight) {
        // The last places are reserved for messages that must not be lost.
        if !self.has_room(weight) {
            return Counts::add(&self.counts.dropped);
        }
        let counted = message.len();
        self.queued_bytes.fetch_add(counted, Ordering::Relaxed);
        if self.queue.try_send(Waiting { message, counted }).is_err() {
            self.queued_bytes.fetch_sub(counted, Ordering::Relaxed);
            Counts::add(&self.counts.dropped);
        }
    }

    fn ask(&self, message: Rendered) -> BoxFuture<bool> {
        let queue = self.queue.clone();
        Box::pin(async move { queue.send(Waiting { message, counted: 0 }).await.is_ok() })
    }

    fn answer(&self, message: Rendered) -> BoxFuture<()> {
        let queue = self.queue.clone();
        Box::pin(async move {
            if queue.send(Waiting { message, counted: 0 }).await.is_err() {
                tracing::debug!("an answer came after its connection had ended");
            }
        })
    }
}

/// The line for one call: it sends nothing more once the call has ended.
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

/// The channel back to a modern client on a stream.
pub(super) struct LineBack {
    pub(super) origin: Arc<Origin>,
    pub(super) subscription: Option<Id>,
    pub(super) outlet: Arc<dyn Outlet>,
}

impl Back for LineBack {
    fn notify(&self, notification: Notification) {
        if let Some(notification) =
            filter_notification(&self.origin, self.subscription.as_ref(), notification)
        {
            let weight = Weight::of(&notification.method);
            self.outlet.tell(Rendered::notification(notification), weight);
        }
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        cannot_ask(&ask)
    }
}

/// Writes until `connection` has ended and everything queued by then is written, or until the client has read nothing
/// for `patience`.
pub(super) async fn write_lines(
    Queue { receiver: mut queue, queued_bytes }: Queue,
    mut write: impl AsyncWrite + Unpin,
    patience: Duration,
    connection: Scope,
) {
    let mut ready = Vec::with_capacity(64);
    loop {
        let count = tokio::select! {
            biased;
            count = queue.recv_many(&mut ready, 64) => count,
            // Calls may still hold the line, but it accepts no more messages.
            () = connection.ended(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        };
        if count == 0 {
            break;
        }
        let written = ready.iter().map(|waiting| waiting.counted).sum::<usize>();
        for bytes in gather(&mut ready) {
            if let Err(error) = write_all(&mut write, bytes, patience).await {
                return tracing::debug!(%error, "a stream connection cannot be written to");
            }
        }
        if !matches!(timeout(patience, write.flush()).await, Ok(Ok(()))) {
            return;
        }
        queued_bytes.fetch_sub(written, Ordering::Relaxed);
    }
    // The client may have disconnected already.
    let _ = timeout(patience, write.shutdown()).await;
}

/// The lines as few pieces, without copying the large ones.
fn gather(ready: &mut Vec<Waiting>) -> Vec<Bytes> {
    let mut out = Vec::new();
    let mut small = BytesMut::new();
    for part in ready.drain(..).flat_map(|waiting| waiting.message.into_line()) {
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

/// The timeout restarts with every byte that is read.
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use toolyard_proto::Method;

    use super::*;

    fn tell(line: &Line, method: &Method) {
        let message = Rendered::whole(Bytes::from(vec![b'x'; 1024 * 1024]));
        line.tell(message, Weight::of(method));
    }

    #[tokio::test]
    async fn large_unread_notifications_cannot_fill_the_memory() {
        let counts = Arc::new(Counts::default());
        let (line, queue) = Line::new(counts.clone());
        let megabytes = |line: &Line| line.queued_bytes.load(Ordering::Relaxed) / (1024 * 1024);
        (0..100).for_each(|_| tell(&line, &Method::PROGRESS));
        assert_eq!((megabytes(&line), counts.dropped.load(Ordering::Relaxed)), (4, 96));
        // Messages that must not be lost have more room, which is bounded too.
        (0..200).for_each(|_| tell(&line, &Method::RESOURCES_CHANGED));
        assert_eq!(megabytes(&line), 64);
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        let scope = Scope::new();
        let writing = write_lines(queue, near, Duration::from_secs(20), scope.clone());
        let reading = async {
            let mut received = Vec::new();
            far.read_to_end(&mut received).await.unwrap();
            received.len()
        };
        let ending = async {
            while megabytes(&line) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // There is room again.
            tell(&line, &Method::PROGRESS);
            scope.cancel();
        };
        let ((), received, ()) = tokio::join!(writing, reading, ending);
        assert_eq!(received, 65 * (1024 * 1024 + 1));
    }
}
