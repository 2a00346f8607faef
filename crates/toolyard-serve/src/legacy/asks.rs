//! Questions to a legacy client: real requests with ids of ours, answered by a later message.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use toolyard_model::peer::{Ask, AskError};
use toolyard_proto::{Id, Message, Method, Notification, Raw, RequestMessage, Response};

use crate::calls::Outlet;
use crate::outbox::Weight;
use crate::reply::Rendered;

/// Questions that may be open at once in one session.
const MOST: usize = 64;

type ClientAnswer = Result<Raw, AskError>;

#[derive(Debug)]
pub(crate) struct Asks {
    next: AtomicU64,
    timeout: Duration,
    open: Mutex<HashMap<u64, oneshot::Sender<ClientAnswer>>>,
    /// No further answer can arrive.
    closed: AtomicBool,
}

impl Asks {
    pub(crate) fn new(timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            next: AtomicU64::new(1),
            timeout,
            open: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Sends the question through `outlet` and waits for the client's answer, a bounded time.
    pub(crate) async fn ask(self: Arc<Self>, ask: Ask, outlet: Arc<dyn Outlet>) -> ClientAnswer {
        let (number, receiver) = self.register()?;
        let mut open = Open { asks: self.clone(), number, outlet: outlet.clone(), asked: false };
        let params = ask.params.map(Into::into);
        let request = RequestMessage { id: Id::number(number), method: ask.method, params };
        if !outlet.ask(Rendered::whole(Message::Request(request).render())).await {
            return Err(AskError::Gone);
        }
        open.asked = true;
        match tokio::time::timeout(self.timeout, receiver).await {
            Ok(reply) => reply.unwrap_or(Err(AskError::Gone)),
            Err(_) => Err(AskError::Timeout),
        }
    }

    fn register(&self) -> Result<(u64, oneshot::Receiver<ClientAnswer>), AskError> {
        let mut open = self.open();
        if self.closed.load(Ordering::Relaxed) {
            return Err(AskError::Gone);
        }
        if open.len() >= MOST {
            return Err(AskError::Unsupported("too many questions are open with this client".into()));
        }
        let (sender, receiver) = oneshot::channel();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        open.insert(number, sender);
        Ok((number, receiver))
    }

    /// Passes the client's answer to the question that waits for it; false if there is none.
    pub(crate) fn answered(&self, response: Response) -> bool {
        let Some(number) = response.id.as_ref().and_then(Id::as_u64) else { return false };
        let sender = self.open().remove(&number);
        sender.is_some_and(|sender| sender.send(response.outcome.map_err(AskError::Reported)).is_ok())
    }

    /// No answer will ever come: questions fail at once, those that are open, too.
    pub(crate) fn close(&self) {
        let mut open = self.open();
        self.closed.store(true, Ordering::Relaxed);
        open.clear();
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<ClientAnswer>>> {
        self.open.lock()
    }
}

/// An open question; if it is dropped, the client is notified.
struct Open {
    asks: Arc<Asks>,
    number: u64,
    outlet: Arc<dyn Outlet>,
    asked: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        let unanswered = self.asks.open().remove(&self.number).is_some();
        if unanswered && self.asked {
            let params = serde_json::json!({ "requestId": self.number, "reason": "no longer needed" });
            let notification = Notification::new(Method::CANCELLED, Raw::from(params));
            self.outlet.tell(Rendered::notification(notification), Weight::Heavy);
        }
    }
}
