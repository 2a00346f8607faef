//! Everything that is known of a running gateway at one moment, for `toolyard doctor`: its upstreams and how
//! they came to where they are, who calls, and the last calls. Other parts add their own sections.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use toolyard_model::{Origin, PrincipalId};
use toolyard_proto::{Reason, calendar};

use crate::gateway::Gateway;
use crate::ledger::{Count, Ledger, Record};
use crate::upstream::Upstream;

/// The method that asks for it, in the view of `yard` alone. It is no tool: no agent needs it.
pub const METHOD: &str = "dev.toolyard/report";

/// How many steps of an upstream's life are told.
const STEPS: usize = 10;

type Section = (&'static str, Arc<dyn Fn() -> Value + Send + Sync>);

/// What other parts have to tell.
#[derive(Default)]
pub(crate) struct Sections(Mutex<Vec<Section>>);

impl Sections {
    fn add(&self, name: &'static str, tell: Arc<dyn Fn() -> Value + Send + Sync>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name, tell));
    }

    fn told(&self) -> Vec<Section> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Gateway {
    /// Adds a section to the report. `tell` is asked each time and must not wait; it holds no gateway, or
    /// neither ever ends.
    pub fn report_on(&self, name: &'static str, tell: impl Fn() -> Value + Send + Sync + 'static) {
        self.common().sections.add(name, Arc::new(tell));
    }
}

/// The report for a client. A client that authenticated with its own token sees only its own
/// calls.
pub(crate) fn report(
    upstreams: &[Arc<Upstream>],
    ledger: &Ledger,
    sections: &Sections,
    asking: &Origin,
) -> Value {
    let principal = asking.principal.name();
    let is_app = matches!(asking.principal.id(), PrincipalId::App(_));
    let may_see = |other: &Arc<str>| !is_app || other == principal;
    let recent = ledger.recent();
    let recent = recent.iter().filter(|record| may_see(&record.principal)).map(call);
    let mut clients = ledger.client_counts();
    clients.sort_by(|one, other| one.client.cmp(&other.client));
    let clients = clients.iter().filter(|client| may_see(&client.principal)).map(|client| {
        json!({ "client": client.client, "principal": client.principal, "calls": count(&client.count) })
    });
    let mut report = Map::from_iter([
        ("version".into(), json!(env!("CARGO_PKG_VERSION"))),
        ("pid".into(), json!(std::process::id())),
        ("upstreams".into(), upstreams.iter().map(|upstream| about(upstream)).collect()),
        ("clients".into(), clients.collect()),
        ("calls".into(), recent.collect()),
    ]);
    report.extend(sections.told().into_iter().map(|(name, tell)| (name.to_owned(), tell())));
    Value::Object(report)
}

fn about(upstream: &Upstream) -> Value {
    let state = upstream.state();
    let steps = state.history.changes().rev().take(STEPS).map(|change| {
        json!({ "at": at(change.at), "from": change.from.as_str(), "to": change.to.as_str(), "reason": change.reason.as_ref().map(Reason::summary) })
    });
    json!({
        "id": upstream.id().as_str(),
        "kind": upstream.kind().as_str(),
        "state": state.phase.as_str(),
        "since": at(state.since),
        "reason": state.reason.as_ref().map(Reason::summary),
        "hint": state.reason.as_ref().and_then(Reason::hint),
        "lastActivity": upstream.last_activity().map(at),
        "underWay": upstream.calls(),
        "calls": count(&upstream.tally().count()),
        "history": steps.collect::<Vec<_>>(),
    })
}

fn count(count: &Count) -> Value {
    json!({
        "total": count.calls,
        "failed": count.failed,
        "mean_ms": milliseconds(count.mean()),
        "slowest_ms": milliseconds(count.slowest),
    })
}

fn call(record: &Record) -> Value {
    json!({
        "at": at(record.at),
        "upstream": record.upstream,
        "tool": record.name.as_deref(),
        "method": record.method.as_str(),
        "duration_ms": record.milliseconds(),
        "status": record.status.as_str(),
        "code": record.status.code(),
        "error": record.status.why(),
        "principal": record.principal,
        "session": record.client_label(),
    })
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}

/// A moment as people and programs read it.
pub fn at(time: SystemTime) -> String {
    calendar::rfc3339(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}
