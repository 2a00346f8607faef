//! Bounds on the cost of connections that have not registered: the bytes of their first lines, and lines in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many bytes of first lines may be in memory at once, over all connections.
const ALL: usize = 64 * 1024 * 1024;
/// How much of a first line is always read; the number of connections is bounded.
const SMALL: usize = 64 * 1024;

/// The bytes of first lines beyond [`SMALL`].
#[derive(Debug, Default)]
pub(super) struct FirstLines(AtomicUsize);

impl FirstLines {
    pub(super) fn begin(self: &Arc<Self>) -> FirstLine {
        FirstLine { all: self.clone(), held: 0 }
    }
}

/// The share that one connection holds; released when it is dropped.
#[derive(Debug)]
pub(super) struct FirstLine {
    all: Arc<FirstLines>,
    held: usize,
}

impl FirstLine {
    /// Whether the line may be this long.
    pub(super) fn may_grow_to(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(SMALL);
        let more = wanted.saturating_sub(self.held);
        let take = |used: usize| used.checked_add(more).filter(|used| *used <= ALL);
        let is_taken = self.all.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        self.held += if is_taken { more } else { 0 };
        is_taken
    }
}

impl Drop for FirstLine {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.held, Ordering::Relaxed);
    }
}

/// How many refusals are logged in [`PERIOD`]; the rest are counted.
const LOGGED: u32 = 20;
const PERIOD: Duration = Duration::from_mins(1);

/// Decides which refusals are logged.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<Logged>);

#[derive(Debug, Default)]
struct Logged {
    since: Option<Instant>,
    lines: u32,
    suppressed: u64,
}

impl RefusalLog {
    /// Whether to log a refusal, and how many before it were not logged.
    pub(super) fn next(&self) -> Option<u64> {
        let mut logged = self.0.lock();
        if logged.since.is_none_or(|since| since.elapsed() >= PERIOD) {
            (logged.since, logged.lines) = (Some(Instant::now()), 0);
        }
        if logged.lines == LOGGED {
            logged.suppressed += 1;
            return None;
        }
        logged.lines += 1;
        Some(std::mem::take(&mut logged.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refusals_beyond_the_limit_are_counted_in_the_next_line() {
        let log = RefusalLog::default();
        let logged = (0..1_000).filter(|_| log.next().is_some()).count();
        assert_eq!(logged, 20);
        tokio::time::sleep(PERIOD).await;
        assert_eq!((log.next(), log.next()), (Some(980), Some(0)));
    }

    #[test]
    fn long_first_lines_share_a_bound_and_short_ones_are_always_read() {
        let all = Arc::new(FirstLines::default());
        let mut lines: Vec<FirstLine> = (0..5).map(|_| all.begin()).collect();
        let admitted = lines.iter_mut().filter_map(|line| line.may_grow_to(16 << 20).then_some(())).count();
        assert_eq!(admitted, 4);
        assert!(all.begin().may_grow_to(SMALL));
        lines.clear();
        assert!(all.begin().may_grow_to(16 << 20));
    }
}
