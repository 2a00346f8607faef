//! Counts that every call touches, so they are atomics without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many calls there were, and how long they took.
#[derive(Debug, Default)]
pub struct Tally {
    calls: AtomicU64,
    failed: AtomicU64,
    /// Microseconds.
    busy: AtomicU64,
    slowest: AtomicU64,
}

/// A tally at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub calls: u64,
    pub failed: u64,
    /// The total duration of all calls.
    pub busy: Duration,
    pub slowest: Duration,
}

impl Tally {
    pub(crate) fn add(&self, took: Duration, is_failure: bool) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.busy.fetch_add(micros, Ordering::Relaxed);
        if micros > self.slowest.load(Ordering::Relaxed) {
            self.slowest.fetch_max(micros, Ordering::Relaxed);
        }
        if is_failure {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn count(&self) -> Count {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Count {
            calls: read(&self.calls),
            failed: read(&self.failed),
            busy: Duration::from_micros(read(&self.busy)),
            slowest: Duration::from_micros(read(&self.slowest)),
        }
    }
}

impl Count {
    /// How long a call takes on the average.
    pub fn mean(&self) -> Duration {
        self.busy.checked_div(u32::try_from(self.calls).unwrap_or(u32::MAX)).unwrap_or_default()
    }
}
