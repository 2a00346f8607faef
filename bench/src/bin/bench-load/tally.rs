//! What was counted, and the JSON line made of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::args::{Era, Plan};

/// More kinds of errors than this are counted as "other".
const MOST_KINDS: usize = 8;
/// How many of the slowest answers are printed, so that percentiles of several runs together can be computed.
const SLOWEST: usize = 1_000;

#[derive(Default)]
pub(crate) struct Tally {
    /// Of right answers within the measured time.
    latencies: Vec<Duration>,
    bytes: usize,
    last_answer: Option<Instant>,
    /// All right answers, those of the warm-up included.
    answers: u64,
    errors: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn warm_up(&mut self) {
        self.answers += 1;
    }

    pub(crate) fn answer(&mut self, latency: Duration, bytes: usize, at: Instant) {
        self.answers += 1;
        self.latencies.push(latency);
        self.bytes += bytes;
        self.last_answer = Some(at);
    }

    pub(crate) fn error(&mut self, why: &str) {
        // Ids and ports differ from one message to the next.
        let kind = why.chars().take(200).map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
        self.add_errors(kind, 1);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.bytes += other.bytes;
        self.last_answer = self.last_answer.max(other.last_answer);
        self.answers += other.answers;
        for (kind, count) in other.errors {
            self.add_errors(kind, count);
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        !self.latencies.is_empty() && self.errors.is_empty()
    }

    pub(crate) fn json(mut self, plan: &Plan, begin: Instant) -> Value {
        self.latencies.sort_unstable();
        let seconds = self.last_answer.map_or(0.0, |at| (at - begin).as_secs_f64());
        json!({
            "label": plan.label,
            "op": format!("{:?}", plan.operation.kind).to_lowercase(),
            "era": match plan.era { Era::Legacy => "legacy", Era::Modern => "modern" },
            "workers": plan.workers,
            "size": plan.operation.size,
            "seconds": seconds,
            "answers": self.answers,
            "measured": self.latencies.len(),
            "per_second": per_second(self.latencies.len(), seconds),
            "bytes_per_second": per_second(self.bytes, seconds),
            "p50_us": self.percentile(50.0),
            "p90_us": self.percentile(90.0),
            "p99_us": self.percentile(99.0),
            "p999_us": self.percentile(99.9),
            "slowest_us": self.slowest(),
            "max_us": self.percentile(100.0),
            "errors": self.errors.values().sum::<u64>(),
            "error_kinds": self.errors,
        })
    }

    /// The slowest ones in microseconds, the worst first; the latencies must be sorted.
    fn slowest(&self) -> Vec<f64> {
        self.latencies.iter().rev().take(SLOWEST).copied().map(microseconds).collect()
    }

    fn add_errors(&mut self, kind: String, count: u64) {
        let known = self.errors.contains_key(&kind) || self.errors.len() < MOST_KINDS;
        *self.errors.entry(if known { kind } else { "other".to_owned() }).or_default() += count;
    }

    /// In microseconds; the latencies must be sorted.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank within a list that fits in memory"
    )]
    fn percentile(&self, percent: f64) -> Option<f64> {
        let rank = self.latencies.len().checked_sub(1)? as f64 * percent / 100.0;
        let latency = self.latencies.get(rank.round() as usize)?;
        Some(microseconds(*latency))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn microseconds(latency: Duration) -> f64 {
    latency.as_nanos() as f64 / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn per_second(count: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { (count as f64 / seconds * 10.0).round() / 10.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let mut tally = Tally::default();
        for ms in [1, 2, 90] {
            tally.answer(Duration::from_millis(ms), 0, Instant::now());
        }
        assert_eq!(tally.percentile(50.0), Some(2000.0));
    }

    #[test]
    fn the_slowest_come_first() {
        let mut tally = Tally::default();
        for ms in 1..=1_200 {
            tally.answer(Duration::from_millis(ms), 0, Instant::now());
        }
        let slowest = tally.slowest();
        assert_eq!((slowest.len(), slowest[0], slowest[999]), (SLOWEST, 1_200_000.0, 201_000.0));
    }

    #[test]
    fn errors_that_differ_in_numbers_are_one_kind() {
        let mut tally = Tally::default();
        tally.error("connect: port 1");
        tally.error("connect: port 2");
        assert_eq!(tally.errors.into_iter().collect::<Vec<_>>(), [("connect: port #".to_owned(), 2)]);
    }
}
