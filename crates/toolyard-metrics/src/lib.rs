//! Durations of calls by tool for `/metrics`, where `[metrics] tools` asks for them.
//!
//! A client can invent names of tools, and a name costs memory here and in Prometheus for good. So a tool gets series
//! of its own only once a call of it has succeeded, and only [`MOST`] tools do; all other calls are counted as one.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use toolyard_core::event::{Event, Sink};
use toolyard_core::ledger::{Captured, OpenCall, Record, Status};
use toolyard_proto::Method;

/// How many tools have series of their own.
pub const MOST: usize = 1_000;
/// The name of all others.
const OTHER: &str = "_OTHER";
/// Longer names are counted among the others.
const LONGEST: usize = 200;

/// Upper bounds in milliseconds: those of the OpenTelemetry conventions for MCP, and finer ones below.
const BOUNDS: [u32; 12] = [1, 2, 5, 10, 20, 50, 100, 500, 1_000, 5_000, 30_000, 300_000];

const DURATIONS: &str = "toolyard_tool_duration_seconds";
const FAILURES: &str = "toolyard_tool_failures_total";

/// Counts calls by tool.
#[derive(Default)]
pub struct ToolMetrics {
    tools: RwLock<BTreeMap<Arc<str>, Arc<Series>>>,
    other: Series,
}

/// The calls of one tool.
#[derive(Default)]
struct Series {
    /// The last bucket has no bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
    failures: AtomicU64,
}

impl Series {
    fn add(&self, took: Duration, is_failure: bool) {
        let bucket = BOUNDS.partition_point(|bound| Duration::from_millis(u64::from(*bound)) < took);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        if is_failure {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&self, labels: &str, out: &mut String) {
        let mut below = 0;
        for (bound, bucket) in BOUNDS.iter().zip(&self.buckets) {
            below += bucket.load(Ordering::Relaxed);
            let seconds = Duration::from_millis(u64::from(*bound)).as_secs_f64();
            let _ = writeln!(out, "{DURATIONS}_bucket{{{labels},le=\"{seconds}\"}} {below}");
        }
        let count = below + self.buckets[BOUNDS.len()].load(Ordering::Relaxed);
        let sum = Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64();
        let _ = writeln!(out, "{DURATIONS}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{DURATIONS}_sum{{{labels}}} {sum}\n{DURATIONS}_count{{{labels}}} {count}");
    }
}

impl ToolMetrics {
    fn add(&self, name: &Arc<str>, status: Status, took: Duration) {
        let known = self.tools.read().get(name).cloned();
        let series = known.or_else(|| (!status.is_failure()).then(|| self.admit(name)).flatten());
        series.as_deref().unwrap_or(&self.other).add(took, status.is_failure());
    }

    /// Gives a tool series of its own while there is room.
    fn admit(&self, tool: &Arc<str>) -> Option<Arc<Series>> {
        let mut tools = self.tools.write();
        let has_room = tools.len() < MOST && tool.len() <= LONGEST;
        if !has_room {
            return tools.get(tool).cloned();
        }
        Some(tools.entry(tool.clone()).or_default().clone())
    }

    fn write(&self, out: &mut String) {
        let tools: Vec<(Arc<str>, Arc<Series>)> = {
            let tools = self.tools.read();
            tools.iter().map(|(name, series)| (name.clone(), series.clone())).collect()
        };
        let named = || tools.iter().map(|(name, series)| (labels(name), &**series));
        let all = || named().chain([(labels(OTHER), &self.other)]);
        let _ = writeln!(out, "# HELP {DURATIONS} Time of calls by tool, to the end of their answer.");
        let _ = writeln!(out, "# TYPE {DURATIONS} histogram");
        all().for_each(|(labels, series)| series.write(&labels, out));
        let _ = writeln!(out, "# HELP {FAILURES} Calls by tool that failed.\n# TYPE {FAILURES} counter");
        for (labels, series) in all() {
            let _ = writeln!(out, "{FAILURES}{{{labels}}} {}", series.failures.load(Ordering::Relaxed));
        }
    }
}

/// `upstream:tool` as labels.
fn labels(canonical: &str) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    match canonical.split_once(':') {
        Some((upstream, tool)) => {
            format!("gen_ai_tool_name=\"{}\",upstream=\"{}\"", escaped(tool), escaped(upstream))
        }
        None => format!("gen_ai_tool_name=\"{}\"", escaped(canonical)),
    }
}

impl Sink for ToolMetrics {
    fn take(&self, _: &Event) {}

    fn call_ended(&self, _: &Arc<OpenCall>, record: &Record, _: Option<&Captured>) {
        if let Some(tool) = record.name.as_ref().filter(|_| record.method == Method::TOOLS_CALL) {
            self.add(tool, record.status, record.duration);
        }
    }

    fn metrics(&self, out: &mut String) {
        self.write(out);
    }
}

impl fmt::Debug for ToolMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolMetrics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &ToolMetrics) -> String {
        let mut out = String::new();
        metrics.write(&mut out);
        out
    }

    #[test]
    fn calls_are_counted_by_tool_in_cumulative_buckets() {
        let metrics = ToolMetrics::default();
        let tool: Arc<str> = "files:read \"x\"\n".into();
        metrics.add(&tool, Status::Ok, Duration::from_micros(1_500));
        metrics.add(&tool, Status::ToolError, Duration::from_secs(2));
        let text = text(&metrics);
        let labels = r#"gen_ai_tool_name="read \"x\"\n",upstream="files""#;
        for line in [
            format!("{DURATIONS}_bucket{{{labels},le=\"0.001\"}} 0"),
            format!("{DURATIONS}_bucket{{{labels},le=\"0.002\"}} 1"),
            format!("{DURATIONS}_bucket{{{labels},le=\"+Inf\"}} 2"),
            format!("{DURATIONS}_count{{{labels}}} 2"),
            format!("{FAILURES}{{{labels}}} 1"),
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn invented_names_add_no_series_and_tools_are_bounded() {
        let metrics = ToolMetrics::default();
        let before = text(&metrics).lines().count();
        for number in 0..100_000 {
            metrics.add(&format!("a:x{number}").into(), Status::ProtocolError(-32602), Duration::ZERO);
        }
        let after = text(&metrics);
        assert_eq!(after.lines().count(), before);
        assert!(after.contains("gen_ai_tool_name=\"_OTHER\"} 100000"), "{after}");
        for number in 0..2 * MOST {
            metrics.add(&format!("a:t{number}").into(), Status::Ok, Duration::ZERO);
        }
        assert_eq!(metrics.tools.read().len(), MOST);
    }
}
