//! A limit that async callers share: wait for a permit, hold it, drop it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::queue::QueueTicket;
use crate::state::{Demand, Offer, Refusal, State};
use crate::{Limit, Share};

/// How often a waiting call reports its place.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// One limit shared by all calls it applies to. Cheap to clone.
#[derive(Clone)]
pub struct Limiter {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    state: State<Arc<str>>,
    /// The calls that wait, by ticket.
    waiting: HashMap<QueueTicket, oneshot::Sender<Result<(), Refusal>>>,
}

/// The current use of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub running: usize,
    pub waiting: usize,
}

impl Limiter {
    pub fn new(limit: Limit) -> Self {
        Self { shared: Arc::new(Mutex::new(Shared { state: State::new(limit), waiting: HashMap::new() })) }
    }

    pub fn usage(&self) -> Usage {
        let shared = self.lock();
        Usage { running: shared.state.running(), waiting: shared.state.waiting() }
    }

    /// A permit, if a call may start at once.
    pub fn try_acquire(&self) -> Option<Permit> {
        let now = Instant::now();
        let mut shared = self.lock();
        match shared.state.offer(now.into_std(), "".into()) {
            (Offer::Started, _) => Some(self.permit(now)),
            (Offer::Waiting(ticket), _) => {
                shared.state.leave(ticket);
                None
            }
            (Offer::Refused(_), _) => None,
        }
    }

    /// Waits for a permit, in turn with other clients, for at most the limit's longest wait. `report` is called with
    /// the number of calls ahead when the call begins to wait, and once a second from then on.
    pub async fn acquire(&self, client: &Arc<str>, report: impl Fn(usize)) -> Result<Permit, Refusal> {
        let now = Instant::now();
        let (ticket, started) = {
            let mut shared = self.lock();
            let (offer, displaced) = shared.state.offer(now.into_std(), client.clone());
            if let Some(displaced) = displaced {
                shared.displace(displaced, now.into_std());
            }
            match offer {
                Offer::Started => return Ok(self.permit(now)),
                Offer::Refused(refusal) => return Err(refusal),
                Offer::Waiting(ticket) => (ticket, shared.wait_for(ticket)),
            }
        };
        self.wait(ticket, started, now, report).await
    }

    async fn wait(
        &self,
        ticket: QueueTicket,
        started: oneshot::Receiver<Result<(), Refusal>>,
        since: Instant,
        report: impl Fn(usize),
    ) -> Result<Permit, Refusal> {
        let mut place = QueuePlace { limiter: self, ticket, started };
        let deadline = since + self.lock().state.limit().max_wait;
        let mut next_report = since;
        loop {
            let now = Instant::now();
            if now >= next_report {
                next_report = now + REPORT_EVERY;
                if let Some(ahead) = self.lock().state.place(ticket) {
                    report(ahead);
                }
            }
            let due = self.lock().state.next_start(now.into_std()).map_or(deadline, Instant::from_std);
            let wake_at = due.min(next_report).min(deadline);
            match tokio::time::timeout_at(wake_at, &mut place.started).await {
                Ok(Ok(Ok(()))) => return Ok(self.permit(Instant::now())),
                Ok(Ok(Err(refusal))) => return Err(refusal),
                // The sender is dropped only together with the limiter, which `self` keeps.
                Ok(Err(_)) => return Err(self.waited_too_long()),
                Err(_) => self.lock().start_waiting(Instant::now()),
            }
            if Instant::now() >= deadline && place.started.is_empty() {
                return Err(self.waited_too_long());
            }
        }
    }

    fn waited_too_long(&self) -> Refusal {
        let retry_after = self.lock().state.retry_after(Instant::now().into_std());
        Refusal::WaitedTooLong { retry_after }
    }

    fn permit(&self, since: Instant) -> Permit {
        Permit { limiter: self.clone(), since }
    }

    /// Uses only a share of the limit from now on.
    pub(crate) fn set_share(&self, share: &Share) {
        let mut shared = self.lock();
        shared.state.set_share(share);
        shared.start_waiting(Instant::now());
    }

    /// How much is asked of it, and how much of it is used.
    pub(crate) fn take_demand(&self) -> Demand {
        self.lock().state.take_demand(Instant::now().into_std())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lock().state.is_idle(Instant::now().into_std())
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }
}

impl Shared {
    fn wait_for(&mut self, ticket: QueueTicket) -> oneshot::Receiver<Result<(), Refusal>> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(ticket, sender);
        receiver
    }

    fn displace(&mut self, ticket: QueueTicket, now: StdInstant) {
        let refusal = Refusal::QueueFull { retry_after: self.state.retry_after(now) };
        if let Some(sender) = self.waiting.remove(&ticket) {
            let _ = sender.send(Err(refusal));
        }
    }

    /// Starts every waiting call that may start now.
    fn start_waiting(&mut self, now: Instant) {
        while let Some(ticket) = self.state.start_next(now.into_std()) {
            let sender = self.waiting.remove(&ticket);
            let has_started = sender.is_some_and(|sender| sender.send(Ok(())).is_ok());
            if !has_started {
                self.state.end(Duration::ZERO);
            }
        }
    }
}

/// The place of a waiting call; given up when the call is dropped while it waits.
struct QueuePlace<'a> {
    limiter: &'a Limiter,
    ticket: QueueTicket,
    /// The decision about the call.
    started: oneshot::Receiver<Result<(), Refusal>>,
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        if self.started.is_terminated() {
            return;
        }
        let mut shared = self.limiter.lock();
        shared.waiting.remove(&self.ticket);
        shared.state.leave(self.ticket);
        // The call was started after its last poll: its permit goes to the next one. A refused call had none.
        if let Ok(Ok(())) = self.started.try_recv() {
            shared.state.end(Duration::ZERO);
        }
        shared.start_waiting(Instant::now());
    }
}

/// The right to run. Dropping it lets the next call start.
pub struct Permit {
    limiter: Limiter,
    since: Instant,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut shared = self.limiter.lock();
        shared.state.end(self.since.elapsed());
        shared.start_waiting(Instant::now());
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = self.usage();
        f.debug_struct("Limiter").field("running", &usage.running).field("waiting", &usage.waiting).finish()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

#[cfg(test)]
mod tests;
