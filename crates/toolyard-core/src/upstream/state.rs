//! Where an upstream is in its life, and why.

use std::time::SystemTime;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Connecting,
    Ready,
    /// Lost or never reached; tried again after a while.
    Waiting,
    Ended,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Ended => "ended",
        }
    }
}

#[derive(Clone, Debug)]
pub struct State {
    pub phase: Phase,
    pub since: SystemTime,
    /// Why it is not ready, in words for a person.
    pub reason: Option<String>,
    /// How often it could not be reached in a row.
    pub failures: u32,
    /// The first attempt is over, one way or the other, definitions included.
    pub settled: bool,
}

impl State {
    pub(crate) fn new() -> Self {
        let (phase, since) = (Phase::Connecting, SystemTime::now());
        Self { phase, since, reason: None, failures: 0, settled: false }
    }

    pub(crate) fn enter(&mut self, phase: Phase, reason: Option<String>) {
        // Whoever has ended does not begin again.
        if self.phase == Phase::Ended {
            return;
        }
        if self.phase != phase {
            self.since = SystemTime::now();
        }
        self.phase = phase;
        if reason.is_some() || phase == Phase::Ready {
            self.reason = reason;
        }
    }
}
