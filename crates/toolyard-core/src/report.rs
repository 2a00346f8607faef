//! Everything that is known about a running gateway at one moment, for `toolyard doctor`: its upstreams with their last
//! state changes, its clients, and the last calls. Other parts add their own sections.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolyard_model::Principal;
use toolyard_proto::calendar;

use crate::gateway::Gateway;
use crate::ledger::{Ledger, Record};
use crate::status::{Stderr, count};
use crate::upstream::Upstream;

type Section = (&'static str, Arc<dyn Fn() -> Value + Send + Sync>);

/// The sections that other parts add.
#[derive(Default)]
pub(crate) struct Sections(Mutex<Vec<Section>>);

impl Sections {
    fn add(&self, name: &'static str, section: Arc<dyn Fn() -> Value + Send + Sync>) {
        self.0.lock().push((name, section));
    }

    fn all(&self) -> Vec<Section> {
        self.0.lock().clone()
    }
}

impl Gateway {
    /// Adds a section to the report. `section` is called each time and must not wait. It must not hold a gateway, or
    /// neither would ever end.
    pub fn report_on(&self, name: &'static str, section: impl Fn() -> Value + Send + Sync + 'static) {
        self.common().sections.add(name, Arc::new(section));
    }
}

/// The report for an operator, or for a principal, which is shown its own calls only.
pub(crate) fn report(
    upstreams: &[Arc<Upstream>],
    ledger: &Ledger,
    sections: &Sections,
    asking: Option<&Principal>,
) -> Value {
    let stderr = Stderr::of(asking.is_none());
    let may_see = |other: &Arc<str>| asking.is_none_or(|asking| asking.name() == other);
    let recent = ledger.recent();
    let recent = recent.iter().filter(|record| may_see(&record.principal)).map(Record::to_json);
    let mut clients = ledger.client_counts();
    clients.sort_by(|one, other| one.client.cmp(&other.client));
    let clients = clients.iter().filter(|client| may_see(&client.principal)).map(|client| {
        json!({ "client": client.client, "principal": client.principal, "calls": count(&client.count) })
    });
    let mut report = Map::from_iter([
        ("version".into(), json!(env!("CARGO_PKG_VERSION"))),
        ("pid".into(), json!(std::process::id())),
        ("upstreams".into(), upstreams.iter().map(|one| one.status().to_json_with_history(stderr)).collect()),
        ("clients".into(), clients.collect()),
        ("calls".into(), recent.collect()),
    ]);
    report.extend(sections.all().into_iter().map(|(name, section)| (name.to_owned(), section())));
    Value::Object(report)
}

/// A moment as text for people and programs.
pub fn at(time: SystemTime) -> String {
    calendar::rfc3339(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}
