//! The report on instances: address, state and health.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use toolyard_proto::calendar::rfc3339;
use toolyard_proto::{CallError, Reason};

use super::{Desk, Hub, Reply, find, own_id, text};
use crate::plan::UpstreamKind;
use crate::upstream::Upstream;
use crate::upstream::state::{Phase, PhaseChange};

impl Desk<'_> {
    /// The text is the bare array, as clients of earlier instance hubs read it; structured content must
    /// be an object.
    pub(super) fn list(&self) -> Reply {
        let rules = self.catalog.rules();
        let instances = rules.upstreams.iter().filter(|one| one.kind() == UpstreamKind::Instance);
        let own = rules.hub.target(&self.origin.client);
        let describe = |one: &Arc<Upstream>| {
            let mut described = instance(one, &rules.hub);
            described["current"] = json!(own.as_ref() == Some(one.id()));
            described
        };
        let instances = instances.map(describe).collect::<Vec<_>>();
        let text = serde_json::to_string_pretty(&instances).unwrap_or_default();
        Reply { structured: json!({ "instances": instances }), text }
    }

    pub(super) fn health(&self, arguments: &Value) -> Result<Value, CallError> {
        let rules = self.catalog.rules();
        let all = rules.upstreams.iter().filter(|one| one.kind() == UpstreamKind::Instance);
        let wanted: Vec<Arc<Upstream>> = match text(arguments, "instance_id")? {
            Some(id) => vec![find(&rules.upstreams, id)?.clone()],
            None => all.cloned().collect(),
        };
        let reports: Vec<Value> = wanted.iter().map(|one| health(one, &rules.hub)).collect();
        let healthy = reports.iter().filter(|one| one["healthy"] == true).count();
        let times = wanted.iter().filter_map(|one| one.health().round_trip);
        let (count, sum) = times.fold((0_u32, Duration::ZERO), |(count, sum), time| (count + 1, sum + time));
        Ok(json!({
            "instances": reports,
            "healthy_instances": healthy, "unhealthy_instances": wanted.len() - healthy, "total_instances": wanted.len(),
            "average_response_time_ms": sum.checked_div(count).map(millis),
        }))
    }
}

/// An instance with all data of a list entry.
fn instance(upstream: &Upstream, hub: &Hub) -> Value {
    let state = upstream.state();
    let age = |time: SystemTime| duration(time.elapsed().unwrap_or_default());
    let counts = state.history.counts().map(|(from, to, count)| (format!("{from}->{to}"), json!(count)));
    let mut about = upstream.described().map_or_else(|| json!({}), |about| Value::clone(&about));
    about["id"] = json!(own_id(upstream));
    about["upstream"] = json!(upstream.id().as_str());
    about["state"] = json!(state.phase.as_str());
    about["reason"] = json!(state.reason.as_ref().map(Reason::summary));
    about["hint"] = json!(state.reason.as_ref().and_then(Reason::hint));
    about["connected"] = json!(upstream.links.live().is_some());
    about["connected_at"] = json!(state.connected.map(time));
    about["discovered_at"] = json!(time(state.discovered));
    about["state_changed_at"] = json!(time(state.since));
    about["time_in_state"] = json!(age(state.since));
    about["total_time"] = json!(age(state.discovered));
    about["retry_count"] = json!(state.failures);
    about["last_activity"] = json!(upstream.last_activity().map(time));
    about["response_time_ms"] = json!(upstream.health().round_trip.map(millis));
    about["missed_pings"] = json!(upstream.health().misses);
    about["sessions"] = json!(hub.connections(upstream.id()));
    about["state_stats"] = json!({
        "transitions": counts.collect::<Map<_, _>>(), "total_transitions": state.history.total(),
    });
    about
}

/// The health of one instance.
fn health(upstream: &Upstream, hub: &Hub) -> Value {
    let state = upstream.state();
    let (described, known) = (upstream.described(), upstream.health());
    let step = |change: &PhaseChange| {
        json!({
            "from": change.from.as_str(), "to": change.to.as_str(), "at": time(change.at),
            "reason": change.reason.as_ref().map(Reason::summary),
        })
    };
    json!({
        "id": own_id(upstream),
        "upstream": upstream.id().as_str(),
        "name": described.as_ref().map(|about| about["name"].clone()),
        "state": state.phase.as_str(),
        "healthy": state.phase == Phase::Active && known.is_healthy() != Some(false),
        "reason": state.reason.as_ref().map(Reason::summary),
        "hint": state.reason.as_ref().and_then(Reason::hint),
        "retry_count": state.failures,
        "last_activity": upstream.last_activity().map(time),
        "last_ping": known.last_ping.map(time),
        "last_pong": known.last_answer.map(time),
        "response_time_ms": known.round_trip.map(millis),
        "missed_pings": known.misses,
        "last_error": known.last_error.as_ref().map(Reason::summary),
        "pings": { "sent": known.pings, "answered": known.answers, "missed": known.missed },
        "calls_under_way": upstream.calls(),
        "sessions": hub.connections(upstream.id()),
        "history": state.history.changes().map(step).collect::<Vec<_>>(),
    })
}

fn time(time: SystemTime) -> String {
    rfc3339(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// In milliseconds, to the microsecond.
fn millis(length: Duration) -> f64 {
    (length.as_secs_f64() * 1e6).round() / 1e3
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
    use crate::plan::{Pace, UpstreamPlan};

    #[test]
    fn an_instance_that_was_not_tried_yet_is_described_in_the_same_form() {
        let id = UpstreamId::parse("shop").unwrap();
        let plan = UpstreamPlan::new(id, UpstreamKind::Instance, Arc::new(Seat::default()));
        let upstream = Upstream::new(plan, Pace::default(), None, Scope::new());
        let file = json!({ "id": "7f-shop", "name": "shop", "path": "/srv", "port": 7777, "has_package_json": true });
        let found = Instance::parse(file.to_string().as_bytes(), SystemTime::now()).unwrap();
        upstream.describe(found.about());
        let mut described = instance(&upstream, &Hub::new(Arc::default()));
        described["current"] = json!(false);
        assert_eq!((&described["state"], &described["id"]), (&json!("discovered"), &json!("7f-shop")));
        let form = jsonschema::validator_for(&schema::list()).unwrap();
        let wrong: Vec<String> =
            form.iter_errors(&json!({ "instances": [described] })).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        let report = health(&upstream, &Hub::new(Arc::default()));
        assert_eq!((&report["healthy"], &report["history"]), (&json!(false), &json!([])));
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
