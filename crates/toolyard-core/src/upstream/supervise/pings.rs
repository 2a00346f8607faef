//! Pings an upstream, and acts on the result. A ping runs beside everything else,
//! so a silent upstream delays neither its own messages nor any calls.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use tokio::time::Instant;
use toolyard_model::{Answer, BoxFuture, Peer};
use toolyard_proto::{Kind, Raw, Reason};

use super::Driver;
use crate::bridge;
use crate::catalog::ListKind;
use crate::upstream::Upstream;
use crate::upstream::fetch::own_request;
use crate::upstream::health::{HealthChange, Sign};
use crate::upstream::state::Phase;

/// A ping under way.
pub(super) struct Ping {
    begun: Instant,
    /// Whether something went wrong before.
    suspect: bool,
    pub(super) outcome: BoxFuture<PingOutcome>,
}

pub(super) enum PingOutcome {
    Answered,
    /// No answer, for this reason.
    Silent(Reason),
    /// The upstream is certainly gone.
    Gone(Reason),
}

impl Driver<'_> {
    /// Sends a ping, unless one is under way.
    pub(super) fn ask(&mut self, suspect: bool) {
        self.vigil.asked();
        if let Some(ping) = &mut self.pinging {
            ping.suspect |= suspect;
            return;
        }
        self.upstream.life.record(|health| health.asked(SystemTime::now()));
        let method = bridge::health_check(self.link.greeting().revision);
        let (origin, params) = (&self.outlets.origin, Raw::empty_object());
        let (link, request) =
            (self.link.clone(), own_request(self.link.as_ref(), origin, method, params, "yard-health"));
        let wait = self.upstream.pace().pings.wait;
        let silent = no_answer(wait);
        let asking = async move { tokio::time::timeout(wait, link.call(request, Peer::none())).await };
        let outcome = AssertUnwindSafe(asking).catch_unwind().map(move |asked| match asked {
            Ok(Ok(answer)) => outcome_of(answer, &silent),
            Ok(Err(_)) => PingOutcome::Silent(silent),
            Err(_) => PingOutcome::Gone("asking it failed inside the gateway, which is a bug".into()),
        });
        self.pinging = Some(Ping { begun: Instant::now(), suspect, outcome: Box::pin(outcome) });
    }

    /// Handles the outcome of a ping; returns a reason if the connection is given up because of it.
    pub(super) fn pinged(&mut self, outcome: PingOutcome) -> Option<Reason> {
        let ping = self.pinging.take()?;
        let sign = match outcome {
            PingOutcome::Answered => {
                let round_trip = ping.begun.elapsed();
                self.upstream.life.record(|health| health.answered(SystemTime::now(), round_trip));
                self.upstream.life.responded();
                Sign::Answered
            }
            // An upstream that does one thing at a time may be working on a call.
            PingOutcome::Silent(_) if self.upstream.is_working() => Sign::Busy,
            PingOutcome::Silent(reason) => {
                self.upstream.life.record(|health| health.missed(&reason));
                if ping.suspect { Sign::SilentAndSuspect } else { Sign::Silent }
            }
            PingOutcome::Gone(reason) => {
                self.upstream.life.record(|health| health.missed(&reason));
                return Some(reason);
            }
        };
        let change = self.vigil.take(sign, ping.begun);
        self.act(change)
    }

    fn act(&mut self, change: HealthChange) -> Option<Reason> {
        let wait = self.upstream.pace().pings.wait;
        let health = self.upstream.health();
        let reason = match health.last_error {
            Some(reason) if reason != no_answer(wait) => reason,
            _ => {
                let (wait, times) = (wait.as_secs_f32(), health.misses.max(1));
                format!("it did not answer {times} pings in a row, each within {wait} s").into()
            }
        };
        match change {
            HealthChange::Same => None,
            HealthChange::Back => {
                self.come_back();
                None
            }
            HealthChange::Away if self.learned => {
                self.go_away(reason);
                None
            }
            HealthChange::Away | HealthChange::Lost => Some(reason),
        }
    }

    /// Calls are refused with the reason from here on; calls under way, and the link, are left alone.
    fn go_away(&mut self, reason: Reason) {
        tracing::warn!(target: "upstream", upstream = %self.upstream.id(), %reason, "does not answer");
        self.upstream.links.take_live();
        self.upstream.life.enter(Phase::Retrying, Some(reason));
        self.unlist_at = Some(Instant::now() + self.upstream.pace().grace);
        self.outlets.announce();
    }

    fn come_back(&mut self) {
        tracing::info!(target: "upstream", upstream = %self.upstream.id(), "answers again");
        self.unlist_at = None;
        self.upstream.links.set_live(self.link.clone());
        self.upstream.life.enter(Phase::Connecting, Some("it answers again".into()));
        self.upstream.life.enter(Phase::Active, None);
        self.upstream.life.list(true);
        // Announcements that it sent while it was away may have been lost.
        self.dirty = ListKind::ALL.to_vec();
        self.outlets.announce();
    }
}

fn no_answer(wait: Duration) -> Reason {
    format!("no answer within {} s", wait.as_secs_f32()).into()
}

/// Any answer shows that the upstream runs. One that cannot be reached, for example without a network, may still run
/// and is pinged again; one that refuses connections has ended.
fn outcome_of(answer: Answer, silent: &Reason) -> PingOutcome {
    match answer {
        Ok(_) => PingOutcome::Answered,
        Err(error) => match error.kind {
            Kind::Reported(_) | Kind::TurnedAway | Kind::BadAnswer => PingOutcome::Answered,
            Kind::Timeout => PingOutcome::Silent(silent.clone()),
            Kind::Unreachable => PingOutcome::Silent(error.reason),
            _ => PingOutcome::Gone(error.reason),
        },
    }
}

impl Upstream {
    /// Doubts about an earlier connection do not count for a new one.
    pub(super) fn forget_doubts(&self) {
        let _ = self.life.signals.suspect.notified().now_or_never();
        let _ = self.life.signals.doubted.notified().now_or_never();
        self.life.responded();
        self.life.record(|health| (health.misses, health.last_error) = (0, None));
    }
}
