//! The minimum time between two requests to a service, for all tools together; longer if the service requires it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

#[derive(Debug)]
pub(crate) struct Pace {
    gap: Duration,
    /// When the next request may go out.
    next: Mutex<Option<Instant>>,
}

impl Pace {
    pub(crate) fn new(gap: Duration) -> Self {
        Self { gap, next: Mutex::new(None) }
    }

    /// Waits for its turn. A cancelled caller leaves a gap, which does no harm.
    pub(crate) async fn turn(&self) {
        let at = {
            let mut next = self.next.lock();
            let now = Instant::now();
            let at = next.map_or(now, |next| next.max(now));
            *next = Some(at + self.gap);
            at
        };
        sleep_until(at).await;
    }

    /// A request has been answered. It may have been slow to arrive, and the service counts from its arrival.
    pub(crate) fn answered(&self) {
        self.hold(self.gap);
    }

    /// No request is sent for that long.
    pub(crate) fn hold(&self, time: Duration) {
        let mut next = self.next.lock();
        let until = Instant::now() + time;
        *next = Some(next.map_or(until, |next| next.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(times: &[Instant]) -> Vec<f64> {
        times.iter().map(|time| (*time - times[0]).as_secs_f64()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_all_callers_keep_their_distance() {
        let pace = Pace::new(Duration::from_secs(1));
        let asked = async || {
            pace.turn().await;
            Instant::now()
        };
        let (one, two, three) = tokio::join!(asked(), asked(), asked());
        assert_eq!(seconds(&[one, two, three]), [0.0, 1.0, 2.0]);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (one, two) = tokio::join!(asked(), asked());
        assert_eq!(seconds(&[one, two]), [0.0, 1.0], "no turns are saved up");
    }

    #[tokio::test(start_paused = true)]
    async fn the_pace_counts_from_the_answer_of_a_slow_request() {
        let pace = Pace::new(Duration::from_secs(1));
        pace.turn().await;
        let start = Instant::now();
        tokio::time::sleep(Duration::from_millis(400)).await;
        pace.answered();
        pace.turn().await;
        assert_eq!(start.elapsed(), Duration::from_millis(1400));
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_can_ask_for_more_time() {
        let pace = Pace::new(Duration::from_secs(1));
        pace.turn().await;
        let start = Instant::now();
        pace.hold(Duration::from_secs(7));
        pace.turn().await;
        assert_eq!(start.elapsed(), Duration::from_secs(7));
    }
}
