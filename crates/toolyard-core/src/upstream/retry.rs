//! When an upstream that cannot be reached is tried again: soon at first, then less and less often; and after
//! several failures in a row not at all for a while (the breaker is open), then once (half open). Pure: chance
//! is an argument, and the caller keeps the time.

use std::time::Duration;

use crate::plan::Pace;

/// The spread of attempts to reach a network peer.
pub(crate) const NARROW: f64 = 0.1;
/// The spread of attempts to start a process: starting costs the machine much, so starts are spread widely.
pub(crate) const WIDE: f64 = 0.5;

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAttempt {
    /// Try again after this long.
    Again(Duration),
    /// Too many failures in a row: do not try for this long, then try once.
    Open(Duration),
}

/// After `failures` in a row, at least one. `chance` is from 0 to 1 and spreads attempts by the share `spread` either
/// way, so that upstreams that were lost together are not retried together.
pub fn after(pace: &Pace, failures: u32, spread: f64, chance: f64) -> NextAttempt {
    if failures >= pace.breaker {
        return NextAttempt::Open(pace.half_open);
    }
    let factor = 2u32.saturating_pow(failures.saturating_sub(1).min(16));
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
        let wait = |failures, chance| match after(&pace, failures, NARROW, chance) {
            NextAttempt::Again(wait) => wait.as_millis(),
            NextAttempt::Open(wait) => panic!("open for {wait:?}"),
        };
        let schedule: Vec<u128> = (1..=8).map(|failures| wait(failures, 0.5)).collect();
        assert_eq!(schedule, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
        assert_eq!((wait(1, 0.0), wait(1, 1.0)), (900, 1100));
        assert_eq!((wait(7, 0.0), wait(7, 1.0)), (27_000, 33_000));
        let usual = Pace::default();
        assert!(matches!(after(&usual, 4, WIDE, 0.5), NextAttempt::Again(_)));
        assert_eq!(after(&usual, 5, WIDE, 0.5), NextAttempt::Open(Duration::from_mins(1)));
        assert_eq!(after(&usual, u32::MAX, WIDE, 0.5), NextAttempt::Open(Duration::from_mins(1)));
    }
}
