//! The calls in flight of one session or stream connection, by the client's request ids, and the outlets for their
//! messages.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::timeout;
use toolyard_model::{BoxFuture, Scope};
use toolyard_proto::error::code;
use toolyard_proto::{Id, Notification, RpcError};

use super::endpoint::next_number;
use super::outbox::Weight;
use super::reply::Rendered;

/// The receiver of a call's messages: the stream of its POST, or the line of its connection.
pub(crate) trait Outlet: Send + Sync + 'static {
    /// Sends a notification. Never waits: without room it is dropped and counted.
    fn tell(&self, message: Rendered, weight: Weight);

    /// Sends a request to the client. Returns false if the client will never read it.
    fn ask(&self, message: Rendered) -> BoxFuture<bool>;

    fn answer(&self, message: Rendered) -> BoxFuture<()>;

    /// The call ended without an answer.
    fn no_answer(&self) {}

    fn hang_up(&self, _come_back_after: Duration) {}
}

#[derive(Debug)]
pub(crate) struct Calls {
    limit: usize,
    running: Mutex<HashMap<Id, CallInFlight>>,
    /// Counts calls whose answers have not been sent yet; an id is free again a little earlier.
    unanswered: watch::Sender<usize>,
}

#[derive(Debug)]
struct CallInFlight {
    /// Distinguishes calls that used the same id one after the other.
    serial: u64,
    scope: Scope,
}

impl Calls {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, running: Mutex::default(), unanswered: watch::Sender::new(0) })
    }

    /// Takes `id` for a call whose task will live in a child of `parent`.
    pub(crate) fn take_slot(self: &Arc<Self>, id: &Id, parent: &Scope) -> Result<CallSlot, RpcError> {
        let mut running = self.running();
        if running.contains_key(id) {
            return Err(RpcError::new(
                code::INVALID_REQUEST,
                format!("a request with id {id:?} is under way"),
            ));
        }
        if running.len() >= self.limit {
            return Err(RpcError::new(
                code::INTERNAL,
                "too many requests are under way; wait for some to end",
            ));
        }
        let serial = next_number();
        let scope = parent.child();
        running.insert(id.clone(), CallInFlight { serial, scope: scope.clone() });
        Ok(CallSlot { calls: self.clone(), id: id.clone(), serial, scope })
    }

    /// Handles a `notifications/cancelled`; unknown ids are ignored, since the call may just have been answered.
    pub(crate) fn cancel(&self, notification: &Notification) {
        let id = notification.params.as_ref().and_then(|params| params.member("requestId"));
        let Some(id) = id.and_then(Id::from_raw) else { return };
        let running = self.running().remove(&id);
        if let Some(running) = running {
            running.scope.cancel();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self.unanswered.borrow() == 0
    }

    /// Waits until every call has ended and its answer has been sent, but not longer than `at_most`.
    pub(crate) async fn done(&self, at_most: Duration) {
        // The sender exists as long as `self`, so only the timeout can fail: slower calls are not waited for.
        let _ = timeout(at_most, self.unanswered.subscribe().wait_for(|count| *count == 0)).await;
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Id, CallInFlight>> {
        self.running.lock()
    }
}

/// A request id that is in use until this is dropped.
#[derive(Debug)]
pub(crate) struct CallSlot {
    calls: Arc<Calls>,
    id: Id,
    serial: u64,
    pub(crate) scope: Scope,
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        let mut running = self.calls.running();
        if running.get(&self.id).is_some_and(|running| running.serial == self.serial) {
            running.remove(&self.id);
        }
    }
}

/// One call in flight: the outlet is notified of its end, however it ends.
pub(crate) struct Ending {
    slot: Option<CallSlot>,
    outlet: Arc<dyn Outlet>,
    _unanswered: Unanswered,
}

/// Counts as one unanswered call until it is dropped.
struct Unanswered(Arc<Calls>);

impl Unanswered {
    fn new(calls: Arc<Calls>) -> Self {
        calls.unanswered.send_modify(|count| *count += 1);
        Self(calls)
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.send_modify(|count| *count -= 1);
    }
}

impl Ending {
    pub(crate) fn new(slot: CallSlot, outlet: Arc<dyn Outlet>) -> Self {
        let unanswered = Unanswered::new(slot.calls.clone());
        Self { slot: Some(slot), outlet, _unanswered: unanswered }
    }

    /// The id is free again before the client can have seen the answer.
    pub(crate) async fn answer(mut self, message: Rendered) {
        self.slot = None;
        self.outlet.answer(message).await;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.slot.take().is_some() {
            self.outlet.no_answer();
        }
    }
}

/// Ends its scope when dropped.
#[derive(Debug)]
pub(crate) struct EndOnDrop(pub(crate) Scope);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
