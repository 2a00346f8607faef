//! The state of an upstream: its phase, and why. One machine for every kind of upstream: which step may follow
//! which is written here and nowhere else. It reads no clock: the caller passes the time.

mod history;

#[cfg(test)]
mod model;

use std::fmt;
use std::time::SystemTime;

use toolyard_proto::Reason;

pub use history::{History, PhaseChange};

/// One stage of an upstream's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Known, but not tried yet, or not since the last hint that it is running.
    Discovered,
    Connecting,
    /// Its process was started and has not answered yet.
    Starting,
    Active,
    /// Not running because no call needs it; the next call starts it.
    Idle,
    /// Lost or never reached; tried again after a while, or expected back soon.
    Retrying,
    /// It waits for the user to sign in; what it offers stays listed.
    SignIn,
    /// Tried only once a minute, or when a new hint about it arrives.
    Dead,
    /// It finishes its calls in flight and is then removed. No phase follows.
    Ended,
    /// It does not run: the config or an operator has switched it off. No running upstream is in this phase.
    Disabled,
}

impl Phase {
    /// The phases of upstreams that run.
    pub const ALL: [Self; 9] = [
        Self::Discovered,
        Self::Connecting,
        Self::Starting,
        Self::Active,
        Self::Idle,
        Self::Retrying,
        Self::SignIn,
        Self::Dead,
        Self::Ended,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discovered => "discovered",
            Self::Connecting => "connecting",
            Self::Starting => "starting",
            Self::Active => "active",
            Self::Idle => "idle",
            Self::Retrying => "retrying",
            Self::SignIn => "sign-in needed",
            Self::Dead => "dead",
            Self::Ended => "ended",
            Self::Disabled => "disabled",
        }
    }

    /// From the text of [`as_str`](Self::as_str).
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == text)
    }

    /// Whether `next` may come after this one.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Discovered => {
                matches!(next, Self::Connecting | Self::Starting | Self::Idle | Self::Dead | Self::Ended)
            }
            Self::Connecting | Self::Starting => {
                matches!(next, Self::Active | Self::Retrying | Self::SignIn | Self::Dead | Self::Ended)
            }
            Self::Active => {
                matches!(next, Self::Idle | Self::Retrying | Self::SignIn | Self::Dead | Self::Ended)
            }
            Self::Idle => matches!(next, Self::Discovered | Self::Ended),
            Self::Retrying => matches!(
                next,
                Self::Discovered
                    | Self::Connecting
                    | Self::Starting
                    | Self::SignIn
                    | Self::Dead
                    | Self::Ended
            ),
            Self::SignIn | Self::Dead => matches!(next, Self::Discovered | Self::Ended),
            Self::Ended | Self::Disabled => false,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A transition that is not allowed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an upstream that is {from} cannot become {to}")]
pub struct Invalid {
    pub from: Phase,
    pub to: Phase,
}

/// The phase of an upstream, how it came there, and what it is waiting for.
#[derive(Clone, Debug)]
pub struct State {
    pub phase: Phase,
    pub since: SystemTime,
    /// When it was first found.
    pub discovered: SystemTime,
    /// When the current or last connection was opened.
    pub connected: Option<SystemTime>,
    /// Why it is not active.
    pub reason: Option<Reason>,
    /// How often it could not be reached in a row.
    pub failures: u32,
    /// The first attempt has succeeded or failed, definitions included.
    pub settled: bool,
    /// Whether no attempt is made because there is nothing to connect to.
    pub unseen: bool,
    /// Whether the upstream was connected before and is expected back soon, so that calls wait for it.
    pub returning: bool,
    pub history: History,
}

impl State {
    pub fn new(now: SystemTime) -> Self {
        Self {
            phase: Phase::Discovered,
            since: now,
            discovered: now,
            connected: None,
            reason: None,
            failures: 0,
            settled: false,
            unseen: false,
            returning: false,
            history: History::default(),
        }
    }

    /// Whether there will be a connection, or a failure, before long.
    pub fn is_under_way(&self) -> bool {
        let is_pending = matches!(self.phase, Phase::Discovered | Phase::Connecting | Phase::Starting);
        (!self.unseen && is_pending) || (self.returning && self.phase == Phase::Retrying)
    }

    /// Whether a process is being started, and since when.
    pub fn starting_since(&self) -> Option<SystemTime> {
        (self.phase == Phase::Starting).then_some(self.since)
    }

    /// Goes on to `next`, if that is allowed. Entering the same phase changes only the reason.
    pub fn enter(&mut self, next: Phase, reason: Option<Reason>, now: SystemTime) -> Result<(), Invalid> {
        if self.phase != next {
            if !self.phase.may_become(next) {
                return Err(Invalid { from: self.phase, to: next });
            }
            self.history.push(PhaseChange { from: self.phase, to: next, at: now, reason: reason.clone() });
            self.phase = next;
            self.since = now;
            self.unseen = false;
        }
        if next == Phase::Active {
            self.connected = Some(now);
            self.failures = 0;
            self.returning = false;
        }
        if reason.is_some() || next == Phase::Active {
            self.reason = reason;
        }
        Ok(())
    }
}
