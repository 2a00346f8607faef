//! The settings of a limit, as in the config.

use std::time::Duration;

/// One limit. A part that is `None` does not limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Calls that may run at the same time.
    pub concurrent: Option<usize>,
    /// Evenly spaced starts (GCRA).
    pub rate: Option<Rate>,
    /// Starts in any period of the given length (sliding window).
    pub window: Option<Window>,
    /// Calls that may wait; one more is refused.
    pub queue: usize,
    /// How long a call may wait before it is refused.
    pub max_wait: Duration,
}

/// At most `count` starts per `per`, evenly spaced, after `burst` starts without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    pub count: u32,
    pub per: Duration,
    pub burst: u32,
}

/// At most `count` starts in any period of length `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    pub count: usize,
    pub per: Duration,
}

impl Default for Limit {
    /// No limit; 100 calls may wait for up to a minute once a part is set.
    fn default() -> Self {
        Self { concurrent: None, rate: None, window: None, queue: 100, max_wait: Duration::from_mins(1) }
    }
}

impl Limit {
    pub fn concurrent(count: usize) -> Self {
        Self { concurrent: Some(count), ..Self::default() }
    }

    pub fn window(count: usize, per: Duration) -> Self {
        Self { window: Some(Window { count, per }), ..Self::default() }
    }

    pub fn rate(count: u32, per: Duration, burst: u32) -> Self {
        Self { rate: Some(Rate { count, per, burst }), ..Self::default() }
    }
}

/// The share of a limit that one of several gateways may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The part of the rate.
    pub rate: f64,
    /// Calls that may run here at the same time, and starts here in a window; nothing changes where it is `None`.
    pub concurrent: Option<usize>,
    pub window: Option<usize>,
}

impl Limit {
    /// This share of the limit.
    #[must_use]
    pub fn share(&self, share: &Share) -> Self {
        let part = share.rate.clamp(0.001, 1.0);
        // A burst cannot be divided finely; it is spread by the rate soon enough.
        let rate = self.rate.map(|rate| Rate { per: rate.per.div_f64(part), ..rate });
        let window =
            self.window.map(|window| Window { count: share.window.unwrap_or(window.count), ..window });
        Self {
            concurrent: self.concurrent.map(|count| share.concurrent.unwrap_or(count)),
            rate,
            window,
            ..self.clone()
        }
    }
}

impl Rate {
    /// The time between two evenly spaced starts.
    pub(crate) fn interval(self) -> Duration {
        self.per / self.count.max(1)
    }

    /// How far ahead of the even schedule starts may run.
    pub(crate) fn tolerance(self) -> Duration {
        self.interval() * self.burst.max(1).saturating_sub(1)
    }
}
