//! Numbers that are moved into their range instead of being refused, and `5.0` where `5` was meant.

use serde_json::{Map, Value, json};

use super::{Checker, DEEPEST, is_clamped, scalar};
use crate::schema::{CLAMP, PATH};

/// Puts numbers right, through objects, arrays and references.
pub(super) fn apply(checker: &Checker, schema: &Value, value: &mut Value, depth: usize) {
    let Value::Object(keywords) = schema else { return };
    if depth > DEEPEST {
        return;
    }
    if is_clamped(keywords) {
        move_into_range(keywords, value);
    }
    if scalar::wants(keywords, "integer") && !scalar::wants(keywords, "number") {
        without_fraction(value);
    }
    if let Some(target) = keywords.get("$ref").and_then(Value::as_str).and_then(|name| checker.resolve(name))
    {
        apply(checker, target, value, depth + 1);
    }
    match value {
        Value::Object(fields) => {
            let Some(Value::Object(properties)) = keywords.get("properties") else { return };
            for (name, inner) in properties {
                if let Some(field) = fields.get_mut(name) {
                    apply(checker, inner, field, depth + 1);
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = keywords.get("items") else { return };
            for item in items {
                apply(checker, inner, item, depth + 1);
            }
        }
        _ => {}
    }
}

fn move_into_range(keywords: &Map<String, Value>, value: &mut Value) {
    let Some(number) = value.as_f64() else { return };
    let end = |name: &str| keywords.get(name).filter(|end| end.is_number());
    let below = end("minimum").filter(|end| end.as_f64().is_some_and(|end| number < end));
    let above = end("maximum").filter(|end| end.as_f64().is_some_and(|end| number > end));
    if let Some(end) = below.or(above) {
        *value = end.clone();
    }
}

/// To JSON Schema `5.0` is an integer, to serde it is not.
#[expect(clippy::cast_possible_truncation, reason = "guarded by the range check")]
fn without_fraction(value: &mut Value) {
    if let Some(number) = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15)
        && value.is_f64()
    {
        *value = json!(number as i64);
    }
}

/// Takes clamped ranges out of a schema and says them in the description, so that nobody on the way refuses
/// what the tool would accept.
pub(super) fn publish(keywords: &mut Map<String, Value>) {
    keywords.remove(PATH);
    if keywords.remove(CLAMP).is_some() {
        tell_range(keywords);
    }
}

fn tell_range(keywords: &mut Map<String, Value>) {
    let said = match (keywords.remove("minimum"), keywords.remove("maximum")) {
        (Some(least), Some(most)) => format!("From {least} to {most}"),
        (Some(least), None) => format!("At least {least}"),
        (None, Some(most)) => format!("At most {most}"),
        (None, None) => return,
    };
    let said = format!("{said}; other values are moved to the nearest of these.");
    let text = match keywords.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text} {said}"),
        None => said,
    };
    keywords.insert("description".into(), json!(text));
}
