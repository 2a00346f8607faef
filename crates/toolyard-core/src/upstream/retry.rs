//! When an upstream that was lost or cannot be reached is tried again: soon at first, then less and less often; and
//! after several failed attempts in a row not at all for a while (the breaker is open), then once (half open). Pure:
//! chance is an argument, and the caller keeps the time.

use std::time::Duration;

use crate::plan::Pace;

/// The spread of attempts to reach a network peer.
pub(crate) const NARROW: f64 = 0.1;
/// The spread of attempts to start a process: starting costs the machine much, so starts are spread widely.
pub(crate) const WIDE: f64 = 0.5;

/// The losses and failed attempts of an upstream so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Since it last stayed connected or answered a call. They make the waits longer.
    pub in_a_row: u32,
    /// Since it last listed what it offers. They open the breaker: an upstream that lists comes back.
    pub unreached: u32,
}

impl Failures {
    pub(crate) fn add(&mut self) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.unreached = self.unreached.saturating_add(1);
    }

    /// Whether the upstream is expected back soon.
    pub(crate) fn is_returning(self, pace: &Pace) -> bool {
        self.unreached < pace.breaker
    }
}

/// The next attempt after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAttempt {
    /// Try again after this long.
    Again(Duration),
    /// Too many failures in a row: do not try for this long, then try once.
    Open(Duration),
}

/// After at least one failure. `chance` is from 0 to 1 and spreads attempts by the share `spread` either
/// way, so that upstreams that were lost together are not retried together.
pub fn after(pace: &Pace, failures: Failures, spread: f64, chance: f64) -> NextAttempt {
    if !failures.is_returning(pace) {
        return NextAttempt::Open(pace.half_open);
    }
    let factor = 2u32.saturating_pow(failures.in_a_row.saturating_sub(1).min(16));
    let wait = pace.backoff_first.saturating_mul(factor).min(pace.backoff_most);
    NextAttempt::Again(wait.mul_f64(1.0 - spread + 2.0 * spread * chance.clamp(0.0, 1.0)))
}

/// From 0 to 1.
pub(crate) fn chance() -> f64 {
    let number = getrandom::u32().unwrap_or(u32::MAX / 2);
    f64::from(number) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute_and_the_fifth_failure_opens_the_breaker() {
        let pace = Pace { breaker: 9, ..Pace::default() };
        let failed = |count| Failures { in_a_row: count, unreached: count };
        let wait = |failures, chance| match after(&pace, failed(failures), NARROW, chance) {
            NextAttempt::Again(wait) => wait.as_millis(),
            NextAttempt::Open(wait) => panic!("open for {wait:?}"),
        };
        let schedule: Vec<u128> = (1..=8).map(|failures| wait(failures, 0.5)).collect();
        assert_eq!(schedule, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
        assert_eq!((wait(1, 0.0), wait(1, 1.0)), (900, 1100));
        assert_eq!((wait(7, 0.0), wait(7, 1.0)), (27_000, 33_000));
        let start = |chance| after(&pace, failed(2), WIDE, chance);
        let seconds = |seconds| NextAttempt::Again(Duration::from_secs(seconds));
        assert_eq!((start(0.0), start(0.5), start(1.0)), (seconds(1), seconds(2), seconds(3)), "by half");
        let usual = Pace::default();
        assert!(matches!(after(&usual, failed(4), WIDE, 0.5), NextAttempt::Again(_)));
        assert_eq!(after(&usual, failed(5), WIDE, 0.5), NextAttempt::Open(Duration::from_mins(1)));
        assert_eq!(after(&usual, failed(u32::MAX), WIDE, 0.5), NextAttempt::Open(Duration::from_mins(1)));
    }

    #[test]
    fn losses_of_an_upstream_that_lists_what_it_offers_lengthen_the_waits_and_open_no_breaker() {
        let mut failures = Failures::default();
        let waits: Vec<NextAttempt> = (0..8)
            .map(|_| {
                failures.unreached = 0;
                failures.add();
                after(&Pace::default(), failures, WIDE, 0.5)
            })
            .collect();
        let expected = [1, 2, 4, 8, 16, 30, 30, 30].map(|wait| NextAttempt::Again(Duration::from_secs(wait)));
        assert_eq!(waits, expected);
    }
}
