//! Limits how many notifications of one client are passed on. Upstreams are shared, so a client that sends thousands
//! of them must not keep all other clients waiting there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolyard_model::{Handler, Origin, Principal, Scope};
use toolyard_proto::Notification;

use super::endpoint::Counts;

/// How many notifications may be sent at once, and again in every second.
const BURST: u32 = 100;
const PAUSE: Duration = Duration::from_secs(1);

/// How many principals are tracked before quiet ones are forgotten.
const MOST_PRINCIPALS: usize = 1_000;

/// One for each principal without a session or a connection to keep it in.
#[derive(Debug, Default)]
pub(crate) struct NotifyLimits(Mutex<HashMap<Principal, Arc<NotifyLimit>>>);

impl NotifyLimits {
    pub(crate) fn of(&self, principal: &Principal) -> Arc<NotifyLimit> {
        let mut notify_limits = self.0.lock();
        if notify_limits.len() >= MOST_PRINCIPALS {
            notify_limits.retain(|_, notify_limit| !notify_limit.is_calm());
        }
        notify_limits.entry(principal.clone()).or_insert_with(NotifyLimit::new).clone()
    }
}

#[derive(Debug)]
pub(crate) struct NotifyLimit(Mutex<LimitState>);

#[derive(Debug)]
struct LimitState {
    since: Instant,
    count: u32,
    /// Whether the last notification that was held back is about to be sent.
    later: bool,
}

impl NotifyLimit {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(LimitState { since: Instant::now(), count: 0, later: false })))
    }

    /// Passes a notification to the handler, unless there were too many. A notification of a change is sent
    /// again when the burst is over: losing the last one would leave a stale list.
    pub(crate) fn pass(
        self: &Arc<Self>,
        handler: &Arc<dyn Handler>,
        origin: &Arc<Origin>,
        notification: Notification,
        counts: &Counts,
        scope: &Scope,
    ) {
        if self.has_room() {
            return handler.notice(origin, notification);
        }
        Counts::add(&counts.dropped);
        if !notification.method.as_str().ends_with("list_changed") || self.is_later() {
            return;
        }
        let notify_limit = self.clone();
        let handler = handler.clone();
        let origin = origin.clone();
        scope.spawn(async move {
            tokio::time::sleep(PAUSE).await;
            notify_limit.state().later = false;
            handler.notice(&origin, notification);
        });
    }

    fn has_room(&self) -> bool {
        let mut state = self.state();
        if state.since.elapsed() >= PAUSE {
            (state.since, state.count) = (Instant::now(), 0);
        }
        state.count += 1;
        state.count <= BURST
    }

    fn is_calm(&self) -> bool {
        let state = self.state();
        state.since.elapsed() >= PAUSE && !state.later
    }

    fn is_later(&self) -> bool {
        std::mem::replace(&mut self.state().later, true)
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, LimitState> {
        self.0.lock()
    }
}
