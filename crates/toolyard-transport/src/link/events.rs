//! Where a link puts what its upstream says outside of any call. Never waits: whoever reads the events may
//! at that moment wait for an answer on the same link.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use toolyard_proto::{Method, Notification, Raw};

use crate::peer::{Ask, AskError};
use crate::{BoxFuture, ClientKey, LinkEvent, Scope};

/// How many events may wait to be read.
const CAPACITY: usize = 256;
/// How many announcements of changes may wait for room beyond that.
const MAX_LATE: usize = 64;
/// How long the end of a link may wait for its last event to find room.
const LAST_EVENT: Duration = Duration::from_secs(1);

type Change = (Option<ClientKey>, Method);

#[derive(Clone)]
pub(crate) struct Events {
    sender: mpsc::Sender<LinkEvent>,
    scope: Scope,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Announcements that found no room and wait for it.
    late: Mutex<HashSet<Change>>,
    dropped: AtomicU64,
}

impl Events {
    pub(crate) fn channel(scope: &Scope) -> (Self, mpsc::Receiver<LinkEvent>) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Self { sender, scope: scope.clone(), shared: Arc::default() }, receiver)
    }

    /// Announces a notification. Where the reader is too slow it is dropped and counted, except that an
    /// announcement of changes is kept once: losing the last one would leave a stale list for ever.
    pub(crate) fn notify(&self, client: Option<ClientKey>, notification: Notification) {
        let event = LinkEvent::Notification(client, notification);
        let Err(mpsc::error::TrySendError::Full(event)) = self.sender.try_send(event) else { return };
        match event {
            LinkEvent::Notification(client, notification) if is_change(&notification.method) => {
                self.deliver_later(client, notification);
            }
            _ => self.count_dropped(),
        }
    }

    fn deliver_later(&self, client: Option<ClientKey>, notification: Notification) {
        let change = (client.clone(), notification.method.clone());
        let mut late = self.shared.late.lock().unwrap_or_else(PoisonError::into_inner);
        if late.len() >= MAX_LATE || !late.insert(change.clone()) {
            return;
        }
        drop(late);
        let (sender, shared) = (self.sender.clone(), self.shared.clone());
        self.scope.spawn(async move {
            let Ok(permit) = sender.reserve().await else { return };
            shared.late.lock().unwrap_or_else(PoisonError::into_inner).remove(&change);
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
        let sent = self.sender.try_send(LinkEvent::Ask(client, ask, reply));
        Box::pin(async move {
            if sent.is_err() {
                return Err(AskError::Unsupported("the gateway is too busy to take questions".into()));
            }
            answer.await.unwrap_or(Err(AskError::Gone))
        })
    }

    /// Says that the link is gone. Waits for room: this one must not get lost.
    pub(crate) async fn closed(&self, why: String) {
        let _ = self.sender.send(LinkEvent::Closed(why)).await;
    }

    /// The same, but gives up after a short while: for ends that nobody may be watching.
    pub(crate) async fn closed_soon(&self, why: &str) {
        let _ = tokio::time::timeout(LAST_EVENT, self.closed(why.to_owned())).await;
    }
}

pub(crate) fn is_change(method: &Method) -> bool {
    [Method::TOOLS_CHANGED, Method::RESOURCES_CHANGED, Method::PROMPTS_CHANGED].contains(method)
}
