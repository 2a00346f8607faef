//! Whether an upstream responds: when it is pinged, and what its silence means. Pure: time and ping results are
//! arguments.

#[cfg(test)]
mod model;

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::time::Instant;
use toolyard_proto::Reason;

use crate::plan::Pings;
use crate::report::at;
use crate::status::Stderr;

/// The health of an upstream, as pings have shown it so far, over all its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// When it was last asked, and when it last answered.
    pub last_ping: Option<SystemTime>,
    pub last_answer: Option<SystemTime>,
    /// How long the last answer took.
    pub round_trip: Option<Duration>,
    /// How many pings in a row it has not answered; an answer resets it.
    pub misses: u32,
    /// How many pings were sent, answered and missed in all. Silence during a call counts as neither.
    pub pings: u64,
    pub answers: u64,
    pub missed: u64,
    /// Why the last one was missed.
    pub last_error: Option<Reason>,
}

impl Health {
    /// Unknown before the first ping.
    pub fn is_healthy(&self) -> Option<bool> {
        self.last_ping.map(|_| self.misses == 0)
    }

    pub(super) fn asked(&mut self, now: SystemTime) {
        self.last_ping = Some(now);
        self.pings += 1;
    }

    pub(super) fn answered(&mut self, now: SystemTime, round_trip: Duration) {
        self.last_answer = Some(now);
        self.round_trip = Some(round_trip);
        self.misses = 0;
        self.answers += 1;
        self.last_error = None;
    }

    pub(super) fn missed(&mut self, reason: &Reason) {
        self.misses = self.misses.saturating_add(1);
        self.missed += 1;
        self.last_error = Some(reason.clone());
    }

    pub fn to_json(&self, stderr: Stderr) -> Value {
        json!({
            "healthy": self.is_healthy(),
            "lastPing": self.last_ping.map(at),
            "lastAnswer": self.last_answer.map(at),
            "roundTripMs": self.round_trip.map(|time| (time.as_secs_f64() * 1e6).round() / 1e3),
            "missesInARow": self.misses,
            "pings": self.pings,
            "answers": self.answers,
            "missed": self.missed,
            "lastError": stderr.summary(self.last_error.as_ref()),
        })
    }
}

/// How an upstream responded to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Answered,
    /// It did not answer in time.
    Silent,
    /// It did not answer in time, and the ping was sent because of an earlier failure.
    SilentAndSuspect,
    /// It did not answer, but it has a call to work on.
    Busy,
}

/// The consequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthChange {
    /// No change.
    Same,
    /// The upstream is away for now: it gets no more calls, but is still pinged.
    Away,
    /// The upstream answers again.
    Back,
    /// The upstream has been away so long that this connection is given up.
    Lost,
}

/// Watches one connection.
#[derive(Debug)]
pub(super) struct Vigil {
    rules: Pings,
    /// Whether it is pinged regularly, and not only on suspicion.
    regular: bool,
    due: Option<Instant>,
    misses: u32,
    /// An upstream that has never answered may not support the ping, and is not judged by its silence.
    answers: bool,
    away: bool,
}

impl Vigil {
    pub(super) fn new(rules: Pings, regular: bool, answers: bool, first: Instant) -> Self {
        let due = regular.then_some(first);
        Self { rules, regular, due, misses: 0, answers, away: false }
    }

    /// Applies other rules from now on; what was seen so far still counts.
    pub(super) fn follow(&mut self, rules: Pings, regular: bool, now: Instant) {
        self.rules = rules;
        if regular != self.regular {
            self.regular = regular;
            self.due = regular.then(|| now + rules.every);
        }
    }

    /// When to ping next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is_away(&self) -> bool {
        self.away
    }

    /// A ping has been sent.
    pub(super) fn asked(&mut self) {
        self.due = None;
    }

    /// `begun` is when the ping was sent.
    pub(super) fn take(&mut self, sign: Sign, begun: Instant) -> HealthChange {
        let change = self.judge(sign);
        let is_doubtful = self.away || (1..self.rules.misses).contains(&self.misses);
        self.due = (self.regular || is_doubtful).then(|| begun + self.rules.every);
        change
    }

    fn judge(&mut self, sign: Sign) -> HealthChange {
        match sign {
            Sign::Answered => {
                self.misses = 0;
                self.answers = true;
                if std::mem::take(&mut self.away) { HealthChange::Back } else { HealthChange::Same }
            }
            Sign::Busy => HealthChange::Same,
            Sign::SilentAndSuspect if !self.away => {
                self.misses = self.misses.saturating_add(1).max(self.rules.misses);
                self.away = true;
                HealthChange::Away
            }
            Sign::Silent | Sign::SilentAndSuspect => self.silent(),
        }
    }

    fn silent(&mut self) -> HealthChange {
        self.misses = self.misses.saturating_add(1);
        if self.away && self.misses >= self.rules.misses.saturating_mul(2) {
            return HealthChange::Lost;
        }
        if !self.away && self.answers && self.misses >= self.rules.misses {
            self.away = true;
            return HealthChange::Away;
        }
        HealthChange::Same
    }
}
