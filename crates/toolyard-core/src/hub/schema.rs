//! The output schemas of the tools about instances.

use serde_json::{Value, json};

use crate::upstream::state::Phase;

/// The output schema of `instances_list`.
pub(super) fn list() -> Value {
    let (text, count) = (json!({ "type": "string" }), json!({ "type": "integer", "minimum": 0 }));
    let at = json!({ "type": "string", "format": "date-time" });
    let transitions = json!({ "type": "object", "additionalProperties": count });
    let instance = object(&json!({
        "id": text, "upstream": text, "name": text, "directory": text, "path": text,
        "port": { "type": ["integer", "null"], "minimum": 1, "maximum": 65_535 }, "endpoint": text,
        "pid": or_null("integer"), "process_pid": or_null("integer"), "has_package_json": { "type": "boolean" },
        "state": states(), "reason": or_null("string"), "hint": or_null("string"),
        "connected": { "type": "boolean" }, "current": { "type": "boolean" },
        "connected_at": or_null("string"), "discovered_at": at, "state_changed_at": at,
        "time_in_state": text, "total_time": text, "last_activity": or_null("string"),
        "response_time_ms": or_null("number"), "missed_pings": count, "retry_count": count, "sessions": count,
        "state_stats": object(&json!({ "transitions": transitions, "total_transitions": count })),
    }));
    object(&json!({ "instances": { "type": "array", "items": instance } }))
}

/// The output schema of `instances_health`.
pub(super) fn health() -> Value {
    let (text, count) = (json!({ "type": "string" }), json!({ "type": "integer", "minimum": 0 }));
    let step = object(&json!({ "from": text, "to": text, "at": text, "reason": or_null("string") }));
    let pings = object(&json!({ "sent": count, "answered": count, "missed": count }));
    let instance = object(&json!({
        "id": text, "upstream": text, "name": or_null("string"), "state": states(),
        "healthy": { "type": "boolean" }, "reason": or_null("string"), "hint": or_null("string"), "retry_count": count,
        "last_ping": or_null("string"), "last_pong": or_null("string"), "response_time_ms": or_null("number"),
        "missed_pings": count, "last_error": or_null("string"), "pings": pings,
        "last_activity": or_null("string"), "calls_under_way": count, "sessions": count,
        "history": { "type": "array", "items": step },
    }));
    object(&json!({
        "instances": { "type": "array", "items": instance },
        "healthy_instances": count, "unhealthy_instances": count, "total_instances": count,
        "average_response_time_ms": or_null("number"),
    }))
}

/// An object in which every field is always there.
fn object(fields: &Value) -> Value {
    let required: Vec<&String> = fields.as_object().into_iter().flat_map(|fields| fields.keys()).collect();
    json!({ "type": "object", "properties": fields, "required": required })
}

fn or_null(kind: &str) -> Value {
    json!({ "type": [kind, "null"] })
}

fn states() -> Value {
    let names = Phase::ALL.iter().filter(|phase| **phase != Phase::Ended).map(|phase| phase.as_str());
    json!({ "type": "string", "enum": names.collect::<Vec<_>>() })
}
