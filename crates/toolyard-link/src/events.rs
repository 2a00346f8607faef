//! The queue for what an upstream sends outside of any call. Adding to it never waits: the reader of the events may
//! at that moment wait for an answer on the same link.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use toolyard_proto::{Method, Notification, Raw, Reason};

use toolyard_model::peer::{Ask, AskError};
use toolyard_model::{BoxFuture, ClientKey, LinkEvent, Scope};

/// How many events may wait to be read.
const CAPACITY: usize = 256;
/// How many bytes may wait with them. A single one may be larger.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// The size that an announcement of changes may have while it waits for room.
const MAX_LATE_BYTES: usize = 64 * 1024;
/// How many announcements of changes may wait for room beyond that.
const MAX_LATE: usize = 64;
/// How long the end of a link may wait for its last event to find room.
const LAST_EVENT: Duration = Duration::from_secs(1);

type Change = (Option<ClientKey>, Method);

#[derive(Clone)]
pub(crate) struct Events {
    sender: mpsc::Sender<LinkEvent>,
    scope: Scope,
    shared: Arc<EventsShared>,
}

#[derive(Default)]
struct EventsShared {
    /// Announcements that found no room and wait for it.
    late: Mutex<HashSet<Change>>,
    sizes: Mutex<Sizes>,
    dropped: AtomicU64,
}

/// The sizes of the last events that were sent. The waiting events are the last of these, as many as the channel
/// holds, so the reader need not report what it has taken.
#[derive(Default)]
struct Sizes {
    last: VecDeque<usize>,
    sum: usize,
}

impl Sizes {
    /// The bytes of this number of waiting events.
    fn of(&mut self, waiting: usize) -> usize {
        while self.last.len() > waiting {
            self.sum -= self.last.pop_front().unwrap_or(0);
        }
        self.sum
    }

    fn add(&mut self, size: usize) {
        self.last.push_back(size);
        self.sum += size;
    }
}

impl Events {
    pub(crate) fn channel(scope: &Scope) -> (Self, mpsc::Receiver<LinkEvent>) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Self { sender, scope: scope.clone(), shared: Arc::default() }, receiver)
    }

    /// Announces a notification. If the reader is too slow it is dropped and counted, except that one
    /// announcement of changes is kept: losing the last one would leave a list stale.
    pub(crate) fn notify(&self, client: Option<ClientKey>, notification: Notification) {
        let size = notification.params.as_ref().map_or(0, Raw::len);
        match self.sender.try_reserve() {
            Ok(permit) if self.has_room(size) => permit.send(LinkEvent::Notification(client, notification)),
            Err(mpsc::error::TrySendError::Closed(())) => {}
            _ if is_change(&notification.method) => self.deliver_later(client, notification),
            _ => self.count_dropped(),
        }
    }

    /// Whether one more of that size may wait; if so, it counts.
    fn has_room(&self, size: usize) -> bool {
        // The place that is reserved for it is not one that waits.
        let waiting = (CAPACITY - 1).saturating_sub(self.sender.capacity());
        let mut sizes = self.shared.sizes.lock();
        let before = sizes.of(waiting);
        let fits = before == 0 || before + size <= MAX_BYTES;
        if fits {
            sizes.add(size);
        }
        fits
    }

    /// Counts an event that is always sent, and is small.
    fn count_small(&self) {
        self.shared.sizes.lock().add(0);
    }

    fn deliver_later(&self, client: Option<ClientKey>, mut notification: Notification) {
        notification.params = notification.params.filter(|params| params.len() <= MAX_LATE_BYTES);
        let change = (client.clone(), notification.method.clone());
        let mut late = self.shared.late.lock();
        if late.len() >= MAX_LATE || !late.insert(change.clone()) {
            return;
        }
        drop(late);
        let events = self.clone();
        self.scope.spawn(async move {
            let Ok(permit) = events.sender.reserve().await else { return };
            events.shared.late.lock().remove(&change);
            events.count_small();
            permit.send(LinkEvent::Notification(client, notification));
        });
    }

    fn count_dropped(&self) {
        let dropped = self.shared.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if dropped.is_power_of_two() {
            tracing::warn!(dropped, "an upstream sends notifications faster than they are read");
        }
    }

    /// A question that belongs to no call.
    pub(crate) fn ask(&self, client: Option<ClientKey>, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        let (reply, answer) = oneshot::channel();
        let size = ask.params.as_ref().map_or(0, Raw::len);
        let is_sent = match self.sender.try_reserve() {
            Ok(permit) if self.has_room(size) => {
                permit.send(LinkEvent::Ask(client, ask, reply));
                true
            }
            _ => false,
        };
        Box::pin(async move {
            if !is_sent {
                return Err(AskError::Unsupported("too many questions are waiting in the gateway".into()));
            }
            answer.await.unwrap_or(Err(AskError::Gone))
        })
    }

    /// Reports that the link has ended. Waits for room: this event must not get lost.
    pub(crate) async fn closed(&self, reason: Reason) {
        let _ = self.sender.send(LinkEvent::Closed(reason)).await;
    }

    /// The same, but gives up after a short while: the reader may be gone.
    pub(crate) async fn closed_soon(&self, reason: Reason) {
        let _ = tokio::time::timeout(LAST_EVENT, self.closed(reason)).await;
    }
}

pub(crate) fn is_change(method: &Method) -> bool {
    [Method::TOOLS_CHANGED, Method::RESOURCES_CHANGED, Method::PROMPTS_CHANGED].contains(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn large(method: Method) -> Notification {
        Notification::new(method, RAW.clone())
    }

    static RAW: std::sync::LazyLock<Raw> =
        std::sync::LazyLock::new(|| Raw::from(serde_json::json!({ "data": "x".repeat(MIB) })));

    #[tokio::test]
    async fn large_unread_notifications_cannot_fill_the_memory() {
        let scope = Scope::new();
        let (events, mut receiver) = Events::channel(&scope);
        for _ in 0..3 {
            (0..100).for_each(|_| events.notify(None, large(Method::LOG)));
            assert_eq!(receiver.len(), MAX_BYTES / MIB - 1);
            while receiver.try_recv().is_ok() {}
        }
        events
            .notify(None, Notification::new(Method::LOG, Raw::from(serde_json::json!("x".repeat(9 * MIB)))));
        assert_eq!(receiver.len(), 1, "one may be larger");
    }

    #[tokio::test]
    async fn a_change_is_announced_however_little_room_there_is() {
        let scope = Scope::new();
        let (events, mut receiver) = Events::channel(&scope);
        (0..100).for_each(|_| events.notify(None, large(Method::LOG)));
        (0..100).for_each(|_| events.notify(None, large(Method::TOOLS_CHANGED)));
        let changed = async {
            loop {
                match receiver.recv().await {
                    Some(LinkEvent::Notification(_, reported))
                        if reported.method == Method::TOOLS_CHANGED =>
                    {
                        return reported;
                    }
                    event => assert!(event.is_some()),
                }
            }
        };
        let reported = tokio::time::timeout(Duration::from_secs(20), changed).await.unwrap();
        assert!(reported.params.is_none(), "what is kept is small");
        scope.cancel();
    }
}
