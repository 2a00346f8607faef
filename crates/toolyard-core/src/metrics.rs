//! The metrics of a gateway in the Prometheus text format. Names follow the OpenTelemetry conventions for MCP where
//! there is one. Labels come from the config and from closed lists, never from what a client or upstream invents.

use std::fmt::Write;

use toolyard_model::Transport;
use toolyard_proto::Revision;

use crate::Gateway;
use crate::catalog::ListKind;
use crate::ledger::meter::{BOUNDS, Distribution, Operated};
use crate::upstream::Upstream;
use crate::upstream::state::Phase;

/// The convention's bounds begin here; finer ones are for the gateway's own share.
const CONVENTION: u64 = 10_000;
/// The gateway's own share is not measured beyond this.
const OVERHEAD: u64 = 100_000;

impl Gateway {
    /// All metrics, as `/metrics` answers them.
    pub(crate) fn metrics(&self) -> String {
        let mut text = Text(String::with_capacity(16 * 1024));
        let upstreams = self.upstreams();
        self.durations(&mut text, &upstreams);
        upstream_gauges(&mut text, &upstreams);
        self.totals(&mut text);
        self.common().events.metrics(&mut text.0);
        text.0
    }

    fn durations(&self, text: &mut Text, upstreams: &[std::sync::Arc<Upstream>]) {
        let name = "mcp_server_operation_duration_seconds";
        text.head(name, "histogram", "Time from the request of a client to the end of its answer.");
        for upstream in upstreams {
            for one in upstream.meter().read() {
                text.histogram(name, &operation(upstream.id().as_str(), &one), &one.durations, CONVENTION..);
            }
        }
        for one in self.common().ledger.refusals.read() {
            text.histogram(name, &operation("", &one), &one.durations, CONVENTION..);
        }
        let name = "mcp_client_operation_duration_seconds";
        text.head(name, "histogram", "Time from the request to an upstream to the head of its answer.");
        for upstream in upstreams {
            for one in upstream.meter().read_sent(upstream.connector().transport()) {
                text.histogram(name, &operation(upstream.id().as_str(), &one), &one.durations, CONVENTION..);
            }
        }
        self.session_durations(text, upstreams);
        let name = "toolyard_overhead_seconds";
        text.head(name, "histogram", "Time that a call spent in the gateway before it was sent.");
        for upstream in upstreams {
            let labels = format!("upstream=\"{}\"", escaped(upstream.id().as_str()));
            text.histogram(name, &labels, &upstream.meter().overhead.read(), ..=OVERHEAD);
        }
    }

    fn session_durations(&self, text: &mut Text, upstreams: &[std::sync::Arc<Upstream>]) {
        let name = "mcp_server_session_duration_seconds";
        text.head(name, "histogram", "How long sessions and connections of clients lasted.");
        for (revision, transport, one) in self.shared().sessions.lasted.read() {
            text.histogram(name, &way(revision, transport), &one.read(), CONVENTION..);
        }
        let name = "mcp_client_session_duration_seconds";
        text.head(name, "histogram", "How long connections to an upstream lasted.");
        for upstream in upstreams {
            let transport = upstream.connector().transport();
            for (revision, was_lost, one) in upstream.meter().read_connections() {
                let error = if was_lost { ",error_type=\"lost\"" } else { "" };
                let id = escaped(upstream.id().as_str());
                let labels = format!("{}{error},upstream=\"{id}\"", way(revision, transport));
                text.histogram(name, &labels, &one, CONVENTION..);
            }
        }
    }

    fn totals(&self, text: &mut Text) {
        let shared = self.shared();
        text.head("toolyard_sessions", "gauge", "Sessions and connections of clients that are open.");
        text.sample("toolyard_sessions", &[], shared.sessions.count() as u64);
        text.head("toolyard_subscriptions", "gauge", "Streams on which clients listen for changes.");
        text.sample("toolyard_subscriptions", &[], shared.listeners.count() as u64);
        text.head("toolyard_uptime_seconds", "gauge", "Seconds since the gateway was started.");
        text.sample("toolyard_uptime_seconds", &[], shared.started.elapsed().as_secs());
        text.head("toolyard_build_info", "gauge", "The version of the gateway, with the value 1.");
        text.sample("toolyard_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    }
}

fn upstream_gauges(text: &mut Text, upstreams: &[std::sync::Arc<Upstream>]) {
    let statuses: Vec<_> = upstreams.iter().map(|upstream| upstream.status()).collect();
    text.head("toolyard_calls_in_flight", "gauge", "Calls whose answer has not ended.");
    for one in &statuses {
        text.sample("toolyard_calls_in_flight", &[("upstream", &one.id)], one.calls_in_flight as u64);
    }
    text.head("toolyard_upstream_state", "gauge", "1 for the state that the upstream is in.");
    for one in &statuses {
        for phase in Phase::ALL {
            let labels = [("upstream", one.id.as_str()), ("state", phase.as_str())];
            text.sample("toolyard_upstream_state", &labels, u64::from(one.state.phase == phase));
        }
    }
    text.head("toolyard_upstream_failures", "gauge", "Failed connection attempts in a row.");
    for one in &statuses {
        let labels = [("upstream", one.id.as_str())];
        text.sample("toolyard_upstream_failures", &labels, u64::from(one.state.failures));
    }
    text.head("toolyard_catalog_entries", "gauge", "Entries that an upstream offers to clients.");
    for one in &statuses {
        for (kind, count) in [
            (ListKind::Tools, one.tools),
            (ListKind::Resources, one.resources),
            (ListKind::Prompts, one.prompts),
        ] {
            let labels = [("upstream", one.id.as_str()), ("kind", kind.key())];
            text.sample("toolyard_catalog_entries", &labels, count as u64);
        }
    }
}

/// The protocol version, and the transport if that is known.
fn way(revision: Revision, transport: Option<Transport>) -> String {
    let mut labels = format!("mcp_protocol_version=\"{}\"", revision.as_str());
    if let Some(transport) = transport {
        let _ = write!(labels, ",network_transport=\"{}\"", transport.as_str());
    }
    labels
}

fn operation(upstream: &str, operated: &Operated) -> String {
    let Operated { method, error, revision, transport, .. } = *operated;
    let mut labels = format!("mcp_method_name=\"{}\"", escaped(method));
    if method == "tools/call" {
        labels.push_str(",gen_ai_operation_name=\"execute_tool\"");
    }
    if !error.is_empty() {
        let _ = write!(labels, ",error_type=\"{}\"", escaped(error));
    }
    let _ = write!(labels, ",{}", way(revision, transport));
    if !upstream.is_empty() {
        let _ = write!(labels, ",upstream=\"{}\"", escaped(upstream));
    }
    labels
}

/// A label's value, escaped for the text format.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn histogram(
        &mut self,
        name: &str,
        labels: &str,
        one: &Distribution,
        bounds: impl std::ops::RangeBounds<u64>,
    ) {
        let mut below = 0;
        for (bound, count) in BOUNDS.iter().zip(one.buckets) {
            below += count;
            if bounds.contains(bound) {
                let seconds = std::time::Duration::from_micros(*bound).as_secs_f64();
                let _ = writeln!(self.0, "{name}_bucket{{{labels},le=\"{seconds}\"}} {below}");
            }
        }
        let count = one.count();
        let _ = writeln!(self.0, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(self.0, "{name}_sum{{{labels}}} {}", one.sum.as_secs_f64());
        let _ = writeln!(self.0, "{name}_count{{{labels}}} {count}");
    }
}
