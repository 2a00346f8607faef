//! The report on instances: address, state and health. It is made from the one [`UpstreamStatus`], and rendered with the
//! `snake_case` names and the lengths of time that clients of earlier instance hubs read.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use toolyard_proto::calendar::rfc3339;
use toolyard_proto::{CallError, Reason};

use super::{Desk, Hub, Reply, find, own_id, text};
use crate::status::{UpstreamStatus, milliseconds};
use crate::upstream::Upstream;
use crate::upstream::state::{Phase, PhaseChange};

impl Desk<'_> {
    /// The text is the bare array, as clients of earlier instance hubs read it; structured content must
    /// be an object.
    pub(super) fn list(&self) -> Reply {
        let rules = self.catalog.rules();
        let instances = rules.upstreams.iter().filter(|one| one.is_instance());
        let own = rules.hub.target(&self.origin.client);
        let describe = |one: &Arc<Upstream>| {
            let mut described = InstanceReport::new(one, &rules.hub).instance();
            described["current"] = json!(own.as_ref() == Some(one.id()));
            described
        };
        let instances = instances.map(describe).collect::<Vec<_>>();
        let text = serde_json::to_string_pretty(&instances).unwrap_or_default();
        Reply { structured: json!({ "instances": instances }), text }
    }

    pub(super) fn health(&self, arguments: &Value) -> Result<Value, CallError> {
        let rules = self.catalog.rules();
        let all = rules.upstreams.iter().filter(|one| one.is_instance());
        let wanted: Vec<Arc<Upstream>> = match text(arguments, "instance_id")? {
            Some(id) => vec![find(&rules.upstreams, id)?.clone()],
            None => all.cloned().collect(),
        };
        let wanted: Vec<InstanceReport> =
            wanted.iter().map(|one| InstanceReport::new(one, &rules.hub)).collect();
        let reports: Vec<Value> = wanted.iter().map(InstanceReport::health).collect();
        let healthy = reports.iter().filter(|one| one["healthy"] == true).count();
        let times = wanted.iter().filter_map(|one| one.status.health.round_trip);
        let (count, sum) = times.fold((0_u32, Duration::ZERO), |(count, sum), time| (count + 1, sum + time));
        Ok(json!({
            "instances": reports,
            "healthy_instances": healthy, "unhealthy_instances": wanted.len() - healthy, "total_instances": wanted.len(),
            "average_response_time_ms": sum.checked_div(count).map(milliseconds),
        }))
    }
}

/// One instance at one moment.
struct InstanceReport {
    /// The id that the instance has given itself.
    own_id: String,
    status: UpstreamStatus,
    /// How many sessions are connected to it.
    sessions: usize,
}

impl InstanceReport {
    fn new(upstream: &Upstream, hub: &Hub) -> Self {
        let sessions = hub.connections(upstream.id());
        Self { own_id: own_id(upstream), status: upstream.status(), sessions }
    }

    /// All data of a list entry.
    fn instance(&self) -> Value {
        let UpstreamStatus { state, health, .. } = &self.status;
        let age = |time: SystemTime| duration(time.elapsed().unwrap_or_default());
        let counts = state.history.counts().map(|(from, to, count)| (format!("{from}->{to}"), json!(count)));
        let mut about = self.about();
        about["id"] = json!(self.own_id);
        about["upstream"] = json!(self.status.id);
        about["state"] = json!(state.phase.as_str());
        about["reason"] = json!(state.reason.as_ref().map(Reason::summary));
        about["hint"] = json!(state.reason.as_ref().and_then(Reason::hint));
        about["connected"] = json!(self.status.is_connected);
        about["connected_at"] = json!(state.connected.map(time));
        about["discovered_at"] = json!(time(state.discovered));
        about["state_changed_at"] = json!(time(state.since));
        about["time_in_state"] = json!(age(state.since));
        about["total_time"] = json!(age(state.discovered));
        about["retry_count"] = json!(state.failures);
        about["last_activity"] = json!(self.status.last_activity.map(time));
        about["response_time_ms"] = json!(health.round_trip.map(milliseconds));
        about["missed_pings"] = json!(health.misses);
        about["sessions"] = json!(self.sessions);
        about["state_stats"] = json!({
            "transitions": counts.collect::<Map<_, _>>(), "total_transitions": state.history.total(),
        });
        about
    }

    /// Its description of itself, with every field: the node of an instance may not have reported it yet.
    fn about(&self) -> Value {
        let mut about = json!({
            "name": self.own_id, "directory": "", "path": "", "port": null, "pid": null, "process_pid": null,
            "has_package_json": false, "endpoint": "",
        });
        if let (Some(all), Some(own)) =
            (about.as_object_mut(), self.status.about.as_deref().and_then(Value::as_object))
        {
            all.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        about
    }

    /// Its health.
    fn health(&self) -> Value {
        let UpstreamStatus { state, health, .. } = &self.status;
        let step = |change: &PhaseChange| {
            json!({
                "from": change.from.as_str(), "to": change.to.as_str(), "at": time(change.at),
                "reason": change.reason.as_ref().map(Reason::summary),
            })
        };
        json!({
            "id": self.own_id,
            "upstream": self.status.id,
            "name": self.status.about.as_ref().map(|about| about["name"].clone()),
            "state": state.phase.as_str(),
            "healthy": state.phase == Phase::Active && health.is_healthy() != Some(false),
            "reason": state.reason.as_ref().map(Reason::summary),
            "hint": state.reason.as_ref().and_then(Reason::hint),
            "retry_count": state.failures,
            "last_activity": self.status.last_activity.map(time),
            "last_ping": health.last_ping.map(time),
            "last_pong": health.last_answer.map(time),
            "response_time_ms": health.round_trip.map(milliseconds),
            "missed_pings": health.misses,
            "last_error": health.last_error.as_ref().map(Reason::summary),
            "pings": { "sent": health.pings, "answered": health.answers, "missed": health.missed },
            "calls_under_way": self.status.calls_in_flight,
            "sessions": self.sessions,
            "history": state.history.changes().map(step).collect::<Vec<_>>(),
        })
    }
}

fn time(time: SystemTime) -> String {
    rfc3339(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// `1h2m3.5s`, as earlier instance hubs wrote it.
fn duration(length: Duration) -> String {
    let (seconds, millis) = (length.as_secs(), length.subsec_millis());
    if seconds == 0 {
        return format!("{millis}ms");
    }
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let hours = if hours > 0 { format!("{hours}h") } else { String::new() };
    let minutes = if seconds >= 60 { format!("{minutes}m") } else { String::new() };
    let rest = format!("{}.{millis:03}", seconds % 60);
    format!("{hours}{minutes}{}s", rest.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use toolyard_proto::name::UpstreamId;

    use super::*;
    use crate::Scope;
    use crate::discovery::Instance;
    use crate::dynamic_upstreams::Seat;
    use crate::hub::schema;
    use crate::plan::{Pace, UpstreamKind, UpstreamPlan};

    #[test]
    fn an_instance_that_was_not_tried_yet_is_described_in_the_same_form() {
        let id = UpstreamId::parse("shop").unwrap();
        let plan = UpstreamPlan::new(id, UpstreamKind::Instance, Arc::new(Seat::default()));
        let upstream = Upstream::new(plan, Pace::default(), None, Scope::new());
        let file = json!({ "id": "7f-shop", "name": "shop", "path": "/srv", "port": 7777, "has_package_json": true });
        let found = Instance::parse(file.to_string().as_bytes(), SystemTime::now()).unwrap();
        upstream.describe(found.about());
        let report = InstanceReport::new(&upstream, &Hub::new(Arc::default()));
        let mut described = report.instance();
        described["current"] = json!(false);
        assert_eq!((&described["state"], &described["id"]), (&json!("discovered"), &json!("7f-shop")));
        let form = jsonschema::validator_for(&schema::list()).unwrap();
        let wrong: Vec<String> =
            form.iter_errors(&json!({ "instances": [described] })).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        let report = report.health();
        assert_eq!((&report["healthy"], &report["history"]), (&json!(false), &json!([])));
    }

    #[test]
    fn an_instance_of_another_node_is_described_in_the_same_form_before_its_node_has_described_it() {
        let id = UpstreamId::parse("shop").unwrap();
        let plan = UpstreamPlan::new(id, UpstreamKind::Node, Arc::new(Seat::default()));
        let upstream = Upstream::new(plan, Pace::default(), None, Scope::new());
        assert!(!upstream.is_instance());
        upstream.describe(json!({ "node": "b", "kind": "app" }));
        assert!(!upstream.is_instance());
        upstream.describe(json!({ "node": "b", "kind": "instance" }));
        assert!(upstream.is_instance());
        let mut described = InstanceReport::new(&upstream, &Hub::new(Arc::default())).instance();
        described["current"] = json!(false);
        assert_eq!((&described["id"], &described["node"]), (&json!("shop"), &json!("b")));
        let form = jsonschema::validator_for(&schema::list()).unwrap();
        assert!(form.is_valid(&json!({ "instances": [described] })), "{described}");
    }

    #[test]
    fn a_length_of_time_is_written_with_its_unit() {
        for (millis, expected) in [
            (0, "0ms"),
            (250, "250ms"),
            (1_000, "1s"),
            (3_500, "3.5s"),
            (60_000, "1m0s"),
            (63_045, "1m3.045s"),
            (3_600_000, "1h0m0s"),
            (90_061_000, "25h1m1s"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), expected);
        }
    }
}
