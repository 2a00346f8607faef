//! How long calls took, as histograms by method and outcome. Every call touches them, so there are no locks, and the
//! set of methods and outcomes is closed, so no client or upstream can add a series by inventing names or codes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use toolyard_proto::Method;

use super::Status;

/// Upper bounds of the buckets, in microseconds. Those from 10 ms are the bounds of the MCP conventions; the finer
/// ones are for the gateway's own share.
pub const BOUNDS: [u64; 21] = [
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
];

/// The methods that have series of their own.
pub const METHODS: [&str; 9] = [
    "tools/call",
    "prompts/get",
    "resources/read",
    "completion/complete",
    "tasks/get",
    "tasks/result",
    "tasks/update",
    "tasks/cancel",
    OTHER,
];

/// Values of `error.type`; the first means success.
pub const OUTCOMES: [&str; 13] = [
    "",
    "tool_error",
    "-32700",
    "-32600",
    "-32601",
    "-32602",
    "-32603",
    "-32002",
    OTHER,
    "timeout",
    "cancelled",
    "refused",
    "failed",
];

/// Any value that is not in the list.
pub const OTHER: &str = "_OTHER";
/// Where [`OTHER`] is among the outcomes.
const OTHER_CODE: usize = 8;

/// Durations in buckets.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// Microseconds of all together.
    sum: AtomicU64,
}

/// A histogram at one moment: how many fell into each bucket, the last of which has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    pub buckets: [u64; BOUNDS.len() + 1],
    pub sum: Duration,
}

impl Histogram {
    pub(crate) fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(micros, Ordering::Relaxed);
    }

    pub fn read(&self) -> Distribution {
        Distribution {
            buckets: std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed)),
            sum: Duration::from_micros(self.sum.load(Ordering::Relaxed)),
        }
    }
}

impl Distribution {
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// What was added since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            buckets: std::array::from_fn(|at| self.buckets[at].saturating_sub(before.buckets[at])),
            sum: self.sum.saturating_sub(before.sum),
        }
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            buckets: std::array::from_fn(|at| self.buckets[at] + other.buckets[at]),
            sum: self.sum + other.sum,
        }
    }

    /// An upper estimate of a quantile, in microseconds; `None` if there were no calls.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let count = self.count();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank"
        )]
        let rank = ((count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.buckets.iter().position(|inside| {
            seen += inside;
            seen >= rank
        });
        (count > 0).then(|| BOUNDS[at.unwrap_or(0).min(BOUNDS.len() - 1)])
    }
}

/// The calls of one upstream, or those that reached none.
#[derive(Default)]
pub struct Meter {
    /// By method and outcome, made with the first call of each.
    cells: [[OnceLock<Box<Histogram>>; OUTCOMES.len()]; METHODS.len()],
    /// The part of each call that the upstream took, from the request to the head of its answer.
    pub upstream: Histogram,
    /// The part of each call that the gateway took.
    pub overhead: Histogram,
}

impl Meter {
    pub(crate) fn add(&self, method: &Method, status: Status, took: Duration) {
        let method = method.as_str();
        let method = METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1);
        self.cells[method][outcome(status)].get_or_init(Box::default).add(took);
    }

    /// Each method and outcome that occurred.
    pub fn read(&self) -> impl Iterator<Item = (&'static str, &'static str, Distribution)> {
        self.cells.iter().zip(METHODS).flat_map(|(row, method)| {
            let cell = move |(cell, outcome): (&OnceLock<Box<Histogram>>, &'static str)| {
                Some((method, outcome, cell.get()?.read()))
            };
            row.iter().zip(OUTCOMES).filter_map(cell)
        })
    }

    /// All calls together.
    pub fn total(&self) -> Distribution {
        self.read().fold(Distribution::default(), |sum, (.., one)| sum.plus(&one))
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").field("calls", &self.total().count()).finish_non_exhaustive()
    }
}

fn outcome(status: Status) -> usize {
    let name = match status {
        Status::Ok | Status::Answered => "",
        Status::ToolError => "tool_error",
        Status::ProtocolError(code) => {
            let code = code.to_string();
            return OUTCOMES.iter().position(|known| *known == code).unwrap_or(OTHER_CODE);
        }
        Status::Timeout => "timeout",
        Status::Cancelled => "cancelled",
        Status::Refused(_) => "refused",
        Status::Failed(_) => "failed",
    };
    OUTCOMES.iter().position(|known| *known == name).unwrap_or(OTHER_CODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_methods_and_codes_add_no_series() {
        let meter = Meter::default();
        for number in 0..10_000 {
            let method = Method::new(&format!("invented/{number}"));
            meter.add(&method, Status::ProtocolError(number), Duration::from_millis(1));
        }
        let series: Vec<_> =
            meter.read().map(|(method, outcome, one)| (method, outcome, one.count())).collect();
        assert_eq!(series, [(OTHER, OTHER, 10_000)]);
    }

    #[test]
    fn durations_fall_into_the_bucket_that_bounds_them() {
        let histogram = Histogram::default();
        for micros in [50, 51, 10_000, 400_000_000] {
            histogram.add(Duration::from_micros(micros));
        }
        let read = histogram.read();
        assert_eq!((read.buckets[0], read.buckets[1], read.buckets[7], read.buckets[21]), (1, 1, 1, 1));
        assert_eq!(read.quantile(0.5), Some(100));
        assert_eq!(read.quantile(0.99), Some(300_000_000));
        assert_eq!(read.since(&read).quantile(0.5), None);
    }
}
