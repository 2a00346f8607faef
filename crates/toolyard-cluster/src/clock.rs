//! The two clocks that leases are measured with.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::time::{Duration, Instant};

#[cfg(unix)]
use unix::with_sleep;
#[cfg(windows)]
use windows::with_sleep;

use crate::ownership::Now;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    fast_start: Duration,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), fast_start: with_sleep() }
    }

    pub(crate) fn now(&self) -> Now {
        let slow = self.start.elapsed();
        Now { fast: with_sleep().saturating_sub(self.fast_start).max(slow), slow }
    }
}
