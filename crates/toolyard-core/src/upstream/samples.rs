//! The calls of an upstream over the last minutes, one sample every few seconds, for the dashboard's small plots.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::ledger::meter::Distribution;
use crate::upstream::Upstream;

/// How often a sample is taken.
pub(crate) const EVERY: Duration = Duration::from_secs(2);
/// How many samples are kept: five minutes.
const MOST: usize = 150;

/// The changes between two samples.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    calls: u64,
    failed: u64,
    /// Microseconds; `None` if there were no calls.
    p50: Option<u64>,
    p99: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<SampleState>);

#[derive(Debug, Default)]
struct SampleState {
    samples: VecDeque<Sample>,
    last: Distribution,
    failed: u64,
}

impl Samples {
    fn take(&self, upstream: &Upstream) {
        let (now, failed) = (upstream.meter().total(), upstream.tally().count().failed);
        let mut state = self.0.lock();
        let since = now.since(&state.last);
        if state.samples.len() == MOST {
            state.samples.pop_front();
        }
        let failed_since = failed.saturating_sub(state.failed);
        state.samples.push_back(Sample {
            calls: since.count(),
            failed: failed_since,
            p50: since.quantile(0.5),
            p99: since.quantile(0.99),
        });
        (state.last, state.failed) = (now, failed);
    }

    /// Four lists of equal length, the oldest sample first.
    pub(crate) fn to_json(&self) -> Value {
        let state = self.0.lock();
        let list = |value: fn(&Sample) -> Value| state.samples.iter().map(value).collect::<Value>();
        json!({
            "everySeconds": EVERY.as_secs(),
            "calls": list(|sample| json!(sample.calls)),
            "failed": list(|sample| json!(sample.failed)),
            "p50Us": list(|sample| json!(sample.p50)),
            "p99Us": list(|sample| json!(sample.p99)),
        })
    }

    /// Calls in the last sample, and the sum of those of the last minute.
    pub(crate) fn latest(&self) -> Value {
        let state = self.0.lock();
        let last = state.samples.back().copied().unwrap_or_default();
        let minute: u64 = state.samples.iter().rev().take(30).map(|sample| sample.calls).sum();
        json!({ "calls": last.calls, "failed": last.failed, "p50Us": last.p50, "p99Us": last.p99, "lastMinute": minute })
    }
}

/// Takes samples of all upstreams until it is dropped.
pub(crate) async fn keep(catalog: Arc<Catalog>) {
    loop {
        tokio::time::sleep(EVERY).await;
        for upstream in &catalog.rules().upstreams {
            upstream.samples.take(upstream);
        }
    }
}
