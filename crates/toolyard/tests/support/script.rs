//! What this client answers when it is asked: always the same, and what the question allows.

use serde_json::{Map, Value, json};

/// The one root that it has.
pub(crate) const ROOT: &str = "file:///srv/yard";

/// The answer to a question, as a whole message.
pub(crate) fn answer_to(id: &str, method: &str, params: &str) -> String {
    let params = serde_json::from_str(params).unwrap_or(Value::Null);
    match result_for(method, &params) {
        Some(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no"}}}}"#),
    }
}

pub(crate) fn result_for(method: &str, params: &Value) -> Option<Value> {
    Some(match method {
        "ping" => json!({}),
        "roots/list" => json!({ "roots": [{ "uri": ROOT }] }),
        "sampling/createMessage" => json!({
            "role": "assistant",
            "content": { "type": "text", "text": "A model would say so." },
            "model": "script",
            "stopReason": "endTurn",
        }),
        "elicitation/create" if params["mode"] == "url" => json!({ "action": "accept" }),
        "elicitation/create" => {
            json!({ "action": "accept", "content": filled_in(&params["requestedSchema"]) })
        }
        _ => return None,
    })
}

fn filled_in(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.map(|(name, property)| (name.clone(), value_of(property))).collect::<Map<_, _>>().into()
}

fn value_of(property: &Value) -> Value {
    if let Some(default) = property.get("default") {
        return default.clone();
    }
    match property["type"].as_str() {
        Some("boolean") => true.into(),
        Some("integer" | "number") => property.get("minimum").cloned().unwrap_or(7.into()),
        Some("array") => json!([choice_of(&property["items"])]),
        _ => choice_of(property),
    }
}

/// The first that may be chosen, else a text of the right format.
fn choice_of(property: &Value) -> Value {
    let titled = [&property["oneOf"][0]["const"], &property["anyOf"][0]["const"], &property["enum"][0]];
    if let Some(choice) = titled.into_iter().find(|choice| !choice.is_null()) {
        return choice.clone();
    }
    match property["format"].as_str() {
        Some("email") => "ada@example.com".into(),
        Some("uri") => "https://example.com/ada".into(),
        Some("date") => "1815-12-10".into(),
        _ => "Ada".into(),
    }
}
