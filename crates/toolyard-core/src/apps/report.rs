//! The report on apps: each with its state in the terms of the app protocol, and counters that indicate problems.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{AppRecord, Apps, AppsState};
use crate::report::at;

/// Adds apps to the report of the gateway.
pub(super) fn add_apps(shared: &Arc<AppsState>) {
    let apps = Arc::downgrade(shared);
    shared.gateway.report_on("apps", move || {
        let Some(shared) = apps.upgrade() else { return json!([]) };
        let mut records = Apps { shared }.records();
        records.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
        records.iter().map(about).collect::<Vec<Value>>().into()
    });
}

fn about(app: &AppRecord) -> Value {
    json!({
        "id": app.id.as_str(),
        "status": app.status.as_str(),
        "endpoint": app.endpoint,
        "pid": app.pid,
        "connectedAt": app.connected_at.map(at),
        "lastActivity": app.last_activity.map(at),
        "underWay": app.calls,
        "waiting": app.waiting,
        "strayAnswers": app.strays,
        "unreadableLines": app.garbage,
    })
}
