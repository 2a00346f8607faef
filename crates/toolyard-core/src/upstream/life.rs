//! The phase of an upstream, what is known about it, and the signals by which others move it on. Only the
//! supervisor changes the phase.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use toolyard_model::{BoxFuture, Scope};
use toolyard_proto::Reason;

use super::Upstream;
use super::health::Health;
use super::state::{Phase, State};
use crate::catalog::Definitions;
use crate::event::{Events, What};

/// How often at most lists are read because a call named a tool that is not in them.
const READ_FOR_CALL_AGAIN: Duration = Duration::from_secs(5);

pub(crate) struct Life {
    /// The upstream's name, for the log.
    name: Arc<str>,
    pub(super) state: watch::Sender<State>,
    definitions: ArcSwapOption<Definitions>,
    /// Whether its entries are listed: false once it has been lost for longer than the grace.
    listed: AtomicBool,
    pub(super) signals: Signals,
    /// Whether some of its lists may change without an announcement.
    unannounced: AtomicBool,
    /// When its lists were last read because a call named a tool that is not in them.
    read_for_call: Mutex<Option<Instant>>,
    /// How often its lists have been read.
    pub(super) renewals: watch::Sender<u64>,
    /// The upstream has answered a call since it was last connected.
    served: AtomicBool,
    /// A call timed out, and the upstream has not answered anything since.
    unanswered: AtomicBool,
    health: Mutex<Health>,
    /// Owns the supervisor and every task that it starts.
    pub(super) scope: Scope,
    successor: OnceLock<Arc<Upstream>>,
    /// The receiver of the upstream's changes, once it is started.
    pub(super) events: OnceLock<Arc<Events>>,
}

/// The signals that the supervisor waits for, besides its connection.
#[derive(Default)]
pub(super) struct Signals {
    /// Something failed on the link: check whether the upstream still responds.
    pub(super) suspect: Notify,
    /// The upstream may have been lost although nothing failed: check.
    pub(super) doubted: Notify,
    /// There is a new hint that the upstream is running: connect now instead of after the pause.
    pub(super) woken: Notify,
    /// Its definitions no longer match: read the lists again.
    pub(super) outdated: Notify,
    /// The policy was replaced.
    pub(super) policy: Notify,
    /// A call needs an upstream that is idle.
    pub(super) wanted: Notify,
}

impl Life {
    pub(super) fn new(name: Arc<str>, stored: Option<Arc<Definitions>>, scope: Scope) -> Self {
        Self {
            name,
            state: watch::Sender::new(State::new(SystemTime::now())),
            listed: AtomicBool::new(stored.is_some()),
            definitions: ArcSwapOption::new(stored),
            signals: Signals::default(),
            unannounced: AtomicBool::new(false),
            read_for_call: Mutex::default(),
            renewals: watch::Sender::new(0),
            served: AtomicBool::new(false),
            unanswered: AtomicBool::new(false),
            health: Mutex::default(),
            scope,
            successor: OnceLock::new(),
            events: OnceLock::new(),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.borrow().phase
    }

    /// The definitions of the upstream, as last read or stored.
    pub(crate) fn definitions(&self) -> Option<Arc<Definitions>> {
        self.definitions.load_full()
    }

    pub(crate) fn learn(&self, definitions: Definitions) {
        self.definitions.store(Some(Arc::new(definitions)));
    }

    /// Changes the known definitions, also while others change them.
    pub(crate) fn revise(&self, revise: impl Fn(&mut Definitions)) {
        self.definitions.rcu(|known| {
            let mut next = Definitions::clone(known.as_deref()?);
            revise(&mut next);
            Some(Arc::new(next))
        });
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    pub(crate) fn list(&self, listed: bool) {
        self.listed.store(listed, Ordering::Release);
    }

    /// Whether the first attempt to read its definitions is over.
    pub(crate) fn is_settled(&self) -> bool {
        self.state.borrow().settled
    }

    /// Waits until there are definitions or the first attempt to read them has failed.
    pub(crate) async fn settled(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| state.settled).await;
    }

    /// Waits until the upstream is in a phase that fulfils the condition.
    pub(crate) async fn reaches(&self, condition: impl Fn(Phase) -> bool) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| condition(state.phase)).await;
    }

    /// Whether it only finishes calls in flight.
    pub(crate) fn is_retired(&self) -> bool {
        self.phase() == Phase::Ended
    }

    /// Enters a phase. An invalid step is left out and logged.
    pub(super) fn enter(&self, phase: Phase, reason: Option<Reason>) {
        let mut change = None;
        self.state.send_modify(|state| {
            let from = state.phase;
            match state.enter(phase, reason.clone(), SystemTime::now()) {
                Ok(()) if from != phase => change = Some(from),
                Err(invalid) if from != Phase::Ended => {
                    tracing::error!(upstream = %self.name, "{invalid}");
                }
                _ => {}
            }
        });
        if let Some((from, events)) = change.zip(self.events.get()) {
            let upstream = self.name.clone();
            events.emit(What::UpstreamChanged { upstream, from, to: phase, reason });
        }
    }

    /// Something failed on its link: the supervisor checks whether the upstream still responds.
    pub(crate) fn suspect(&self) {
        self.signals.suspect.notify_one();
    }

    /// Checks at once: a connected upstream is pinged, any other is tried again.
    pub(crate) fn revalidate(&self) {
        self.signals.doubted.notify_one();
        if self.phase() != Phase::Active {
            self.wake();
        }
    }

    /// There is a new hint that the upstream is running: it is connected at once.
    pub(crate) fn wake(&self) {
        self.signals.woken.notify_one();
    }

    pub(super) fn set_unannounced(&self, unannounced: bool) {
        self.unannounced.store(unannounced, Ordering::Relaxed);
    }

    /// Whether some of its lists may change without an announcement.
    pub(crate) fn is_unannounced(&self) -> bool {
        self.unannounced.load(Ordering::Relaxed)
    }

    /// Whether its lists are to be read before a tool is reported as unknown: not if changes are announced, and not
    /// repeatedly.
    pub(crate) fn may_be_outdated(&self) -> bool {
        if !self.is_unannounced() {
            return false;
        }
        let mut last = self.read_for_call.lock();
        let is_due = last.is_none_or(|last| last.elapsed() >= READ_FOR_CALL_AGAIN);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }

    /// Its definitions no longer match: the supervisor reads them again and checks the link.
    pub(crate) fn outdated(&self) {
        self.signals.outdated.notify_one();
        self.suspect();
    }

    /// A call timed out without an answer.
    pub(crate) fn left_unanswered(&self) {
        self.unanswered.store(true, Ordering::Release);
    }

    /// Records that the upstream has answered something.
    pub(crate) fn responded(&self) {
        if self.unanswered.load(Ordering::Relaxed) {
            self.unanswered.store(false, Ordering::Release);
        }
    }

    /// Records that the upstream has answered a call.
    pub(crate) fn answered_call(&self) {
        self.responded();
        if !self.served.load(Ordering::Relaxed) {
            self.served.store(true, Ordering::Release);
        }
    }

    /// A connection begins.
    pub(super) fn begin_to_serve(&self) {
        self.served.store(false, Ordering::Release);
    }

    /// Whether it has answered a call since the connection began.
    pub(super) fn has_served(&self) -> bool {
        self.served.load(Ordering::Acquire)
    }

    /// Whether a call timed out and nothing was answered since.
    pub(super) fn is_unanswered(&self) -> bool {
        self.unanswered.load(Ordering::Acquire)
    }

    /// The health of the upstream, as pings have shown it.
    pub(crate) fn health(&self) -> Health {
        self.health.lock().clone()
    }

    /// Changes the record of pings; nothing else happens while it is locked.
    pub(super) fn record(&self, change: impl FnOnce(&mut Health)) {
        change(&mut self.health.lock());
    }

    /// Sets the upstream that receives calls once this one no longer takes them, and that continues its history. Must
    /// be set before `successor` starts and this one retires.
    pub(crate) fn hand_over(&self, successor: &Arc<Upstream>) {
        let history = self.state.borrow().history.clone();
        successor.life.state.send_modify(|state| state.history = history);
        // The successor is set at most once.
        let _ = self.successor.set(successor.clone());
    }

    pub(crate) fn successor(&self) -> Option<Arc<Upstream>> {
        self.successor.get().cloned()
    }

    /// Runs something in the background for as long as the upstream lives.
    pub(crate) fn later(&self, errand: BoxFuture<()>) {
        self.scope.spawn(errand);
    }
}
