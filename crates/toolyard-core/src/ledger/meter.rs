//! How long calls took, as histograms by method and outcome. Every call touches them, so there are no locks, and the
//! set of methods and outcomes is closed, so no client or upstream can add a series by inventing names or codes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use toolyard_model::{Origin, Transport};
use toolyard_proto::{Method, Revision};

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
/// The index of [`OTHER`] among the outcomes.
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

    /// The difference to `before`.
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

/// Which method was called and how the call ended, as indices of the lists above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    method: usize,
    outcome: usize,
}

impl Operation {
    pub(crate) fn of(method: &Method, status: Status) -> Self {
        let method = method.as_str();
        let method = METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1);
        Self { method, outcome: outcome(status) }
    }
}

/// Durations by method and outcome, made with the first of each.
#[derive(Default)]
struct Operations([[OnceLock<Box<Histogram>>; OUTCOMES.len()]; METHODS.len()]);

impl Operations {
    fn add(&self, operation: Operation, took: Duration) {
        self.0[operation.method][operation.outcome].get_or_init(Box::default).add(took);
    }

    fn read(&self) -> impl Iterator<Item = (&'static str, &'static str, Distribution)> {
        self.0.iter().zip(METHODS).flat_map(|(row, method)| {
            let cell = move |(cell, outcome): (&OnceLock<Box<Histogram>>, &'static str)| {
                Some((method, outcome, cell.get()?.read()))
            };
            row.iter().zip(OUTCOMES).filter_map(cell)
        })
    }
}

const REVISIONS: usize = Revision::ALL.len();
/// Each transport, and none inside of one process.
const TRANSPORTS: usize = Transport::ALL.len() + 1;

/// One histogram for each protocol version and transport, made with the first use of each.
pub(crate) struct ByWay<T>([[OnceLock<Box<T>>; TRANSPORTS]; REVISIONS]);

impl<T: Default> ByWay<T> {
    pub(crate) fn of(&self, revision: Revision, transport: Option<Transport>) -> &T {
        let transport = transport.map_or(TRANSPORTS - 1, |transport| transport as usize);
        self.0[revision as usize][transport].get_or_init(Box::default)
    }

    pub(crate) fn read(&self) -> impl Iterator<Item = (Revision, Option<Transport>, &T)> {
        self.0.iter().zip(Revision::ALL).flat_map(|(row, revision)| {
            let transports = Transport::ALL.into_iter().map(Some).chain([None]);
            row.iter()
                .zip(transports)
                .filter_map(move |(one, transport)| Some((revision, transport, &**one.get()?)))
        })
    }
}

impl<T> Default for ByWay<T> {
    fn default() -> Self {
        Self(Default::default())
    }
}

/// The durations of one kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operated {
    pub method: &'static str,
    /// Empty if there was none.
    pub error: &'static str,
    pub revision: Revision,
    pub transport: Option<Transport>,
    pub durations: Distribution,
}

/// The calls of one upstream, or those that reached none.
#[derive(Default)]
pub struct Meter {
    /// From the request of a client to the end of its answer, by how the client reaches the gateway.
    served: ByWay<Operations>,
    /// From the request to the upstream to the head of its answer, by the protocol version of the upstream.
    sent: [OnceLock<Box<Operations>>; REVISIONS],
    /// The part of each call that the gateway took.
    pub overhead: Histogram,
    /// Connections to the upstream: those that the gateway ended, and those that were lost.
    connections: [[OnceLock<Box<Histogram>>; 2]; REVISIONS],
}

impl Meter {
    pub(crate) fn add(&self, origin: &Origin, operation: Operation, took: Duration) {
        self.served.of(origin.revision, origin.transport).add(operation, took);
    }

    /// The part of a call that an upstream of this protocol version took.
    pub(crate) fn add_sent(&self, revision: Revision, operation: Operation, took: Duration) {
        self.sent[revision as usize].get_or_init(Box::default).add(operation, took);
    }

    /// A connection to the upstream has ended.
    pub(crate) fn add_connection(&self, revision: Revision, was_lost: bool, took: Duration) {
        self.connections[revision as usize][usize::from(was_lost)].get_or_init(Box::default).add(took);
    }

    /// Each method and outcome that occurred, by how the client reaches the gateway.
    pub fn read(&self) -> impl Iterator<Item = Operated> {
        self.served.read().flat_map(|(revision, transport, all)| {
            let one =
                move |(method, error, durations)| Operated { method, error, revision, transport, durations };
            all.read().map(one)
        })
    }

    /// Each method and outcome that occurred at the upstream, which is reached over `transport`.
    pub fn read_sent(&self, transport: Option<Transport>) -> impl Iterator<Item = Operated> {
        let made =
            self.sent.iter().zip(Revision::ALL).filter_map(|(one, revision)| Some((revision, one.get()?)));
        made.flat_map(move |(revision, all)| {
            let one =
                move |(method, error, durations)| Operated { method, error, revision, transport, durations };
            all.read().map(one)
        })
    }

    /// How long connections lasted, and whether they were lost.
    pub fn read_connections(&self) -> impl Iterator<Item = (Revision, bool, Distribution)> {
        self.connections.iter().zip(Revision::ALL).flat_map(|(row, revision)| {
            let made = row.iter().zip([false, true]);
            made.filter_map(move |(one, was_lost)| Some((revision, was_lost, one.get()?.read())))
        })
    }

    /// All calls together.
    pub fn total(&self) -> Distribution {
        self.read().fold(Distribution::default(), |sum, one| sum.plus(&one.durations))
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
    use toolyard_model::{ClientKey, Principal, View};

    use super::*;

    #[test]
    fn invented_methods_and_codes_add_no_series() {
        let (meter, origin) = (Meter::default(), origin(Revision::NEWEST, None));
        for number in 0..10_000 {
            let method = Method::new(&format!("invented/{number}"));
            let operation = Operation::of(&method, Status::ProtocolError(number));
            meter.add(&origin, operation, Duration::from_millis(1));
            meter.add_sent(Revision::NEWEST, operation, Duration::from_millis(1));
        }
        let series = |one: Operated| (one.method, one.error, one.durations.count());
        assert_eq!(meter.read().map(series).collect::<Vec<_>>(), [(OTHER, OTHER, 10_000)]);
        assert_eq!(meter.read_sent(None).map(series).collect::<Vec<_>>(), [(OTHER, OTHER, 10_000)]);
    }

    fn origin(revision: Revision, transport: Option<Transport>) -> Origin {
        let client = ClientKey::Request(1);
        Origin::new(View::Everything, Principal::local(), client, revision).with_transport(transport)
    }

    #[test]
    fn calls_are_counted_by_the_version_and_the_transport_of_the_client() {
        let meter = Meter::default();
        let call = Operation::of(&Method::TOOLS_CALL, Status::Ok);
        let transports = Transport::ALL.into_iter().map(Some).chain([None]);
        let ways: Vec<_> = Revision::ALL
            .into_iter()
            .flat_map(|revision| transports.clone().map(move |transport| (revision, transport)))
            .collect();
        for (revision, transport) in &ways {
            meter.add(&origin(*revision, *transport), call, Duration::from_millis(1));
        }
        let read: Vec<_> = meter.read().map(|one| (one.revision, one.transport)).collect();
        assert_eq!(read, ways);
        assert_eq!(meter.total().count(), 20);
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
