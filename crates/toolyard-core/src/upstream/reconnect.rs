//! The time between two connections: how long to wait before the next attempt, when the entries of the upstream
//! leave the lists, and what ends the wait early.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolyard_proto::Reason;

use super::Upstream;
use super::retry::{self, Failures, NextAttempt};
use super::state::Phase;
use super::supervise::Outlets;
use crate::plan::{AfterLoss, UpstreamKind};

/// Effectively infinite; the app reconnects by itself.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// How often to check whether there is something to connect to, at first and at most, and for how long.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLL_LIMIT: Duration = Duration::from_secs(30);

/// The state of earlier attempts.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Since when there is no connection, if there ever was one.
    pub(super) lost_at: Option<Instant>,
    pub(super) failures: Failures,
}

impl Backoff {
    /// Waits until it is time to try again.
    pub(super) async fn rest(&mut self, upstream: &Arc<Upstream>, outlets: &Outlets, reason: Reason) {
        self.failures.add();
        self.lost_at.get_or_insert_with(Instant::now);
        let loss = upstream.connector().after_loss();
        if loss == AfterLoss::SignIn {
            return self.rest_until_signed_in(upstream, outlets, reason).await;
        }
        upstream.lost(reason, self.failures);
        outlets.announce();
        if matches!(loss, AfterLoss::Gone | AfterLoss::Left) {
            upstream.unlist(outlets);
        }
        let (first, after) = match loss {
            AfterLoss::TryAgain | AfterLoss::Left => {
                let spread = if upstream.connector().starts_process() { retry::WIDE } else { retry::NARROW };
                match retry::after(&upstream.pace(), self.failures, spread, retry::chance()) {
                    NextAttempt::Again(wait) => (wait, None),
                    NextAttempt::Open(wait) => (Duration::ZERO, Some(wait)),
                }
            }
            AfterLoss::SignIn => (Duration::ZERO, Some(upstream.pace().half_open)),
            AfterLoss::Await => (upstream.pace().grace, Some(NEVER)),
            AfterLoss::Gone => (Duration::ZERO, Some(NEVER)),
        };
        let mut woken = self.within_grace(upstream, outlets, upstream.woken_within(first)).await;
        if let Some(after) = after.filter(|_| !woken) {
            upstream.life.enter(Phase::Dead, None);
            woken = self.within_grace(upstream, outlets, upstream.woken_within(after)).await;
            let why = if woken { "the upstream was detected again" } else { "the retry interval has passed" };
            upstream.life.enter(Phase::Discovered, Some(why.into()));
        }
        if woken {
            self.failures = Failures::default();
        }
    }

    /// Waits for the user. Another process may sign in, so the upstream is tried from time to time.
    async fn rest_until_signed_in(&mut self, upstream: &Arc<Upstream>, outlets: &Outlets, reason: Reason) {
        (self.failures, self.lost_at) = (Failures::default(), None);
        upstream.links.take_live();
        upstream.life.state.send_modify(|state| (state.settled, state.returning) = (true, false));
        upstream.life.enter(Phase::SignIn, Some(reason));
        outlets.announce();
        upstream.woken_within(upstream.pace().half_open).await;
        upstream.life.enter(Phase::Discovered, None);
    }

    /// Runs `future`. If the grace of a lost upstream ends before, its entries are removed from the lists.
    pub(super) async fn within_grace<T>(
        &self,
        upstream: &Arc<Upstream>,
        outlets: &Outlets,
        future: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(future);
        if let Some(lost) = self.lost_at
            && upstream.is_listed()
        {
            tokio::select! {
                biased;
                done = &mut future => return done,
                () = tokio::time::sleep_until(lost + upstream.pace().grace) => upstream.unlist(outlets),
            }
        }
        future.await
    }
}

impl Upstream {
    /// Waits until a program listens at the address, if this can be checked. After `POLL_LIMIT` the connection is tried
    /// in any case.
    pub(super) async fn sighted(&self) {
        let (begun, mut pause) = (Instant::now(), MIN_POLL_INTERVAL);
        while let Err(why) = self.connector().look().await
            && begun.elapsed() < POLL_LIMIT
        {
            self.life.enter(Phase::Discovered, Some(why));
            self.life.state.send_modify(|state| (state.unseen, state.settled) = (true, true));
            if self.woken_within(pause).await {
                return;
            }
            pause = MAX_POLL_INTERVAL.min(pause * 2);
        }
    }

    /// Whether the upstream has responded within this time.
    async fn woken_within(&self, wait: Duration) -> bool {
        tokio::time::timeout(wait, self.life.signals.woken.notified()).await.is_ok()
    }

    /// Its entries leave the lists.
    pub(super) fn unlist(&self, outlets: &Outlets) {
        self.life.list(false);
        outlets.announce();
    }

    fn lost(&self, reason: Reason, failures: Failures) {
        self.links.take_live();
        let returns = self.kind() == UpstreamKind::Server
            && self.connector().after_loss() == AfterLoss::TryAgain
            && failures.is_returning(&self.pace());
        // Set before the phase, or a call that waits sees a moment in which the upstream is not expected back.
        self.life.state.send_modify(|state| {
            state.failures = failures.in_a_row;
            state.settled = true;
            state.returning = returns && state.connected.is_some();
        });
        self.life.enter(Phase::Retrying, Some(reason));
    }
}
