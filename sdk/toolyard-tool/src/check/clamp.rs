//! Numbers that are moved into their range instead of being refused, and `5.0` where `5` was meant.

use serde_json::{Map, Value, json};

use super::{Checker, DEEPEST, forms, is_clamped, object, scalar};
use crate::schema::{CLAMP, PATH};

/// Puts numbers right, wherever they stand. `depth` counts the schemas that were met for this one value.
pub(super) fn apply(checker: &Checker, schema: &Value, value: &mut Value, depth: usize) {
    let Value::Object(keywords) = schema else { return };
    if depth > DEEPEST {
        return;
    }
    match value {
        Value::Number(_) => apply_to_number(keywords, value),
        Value::Object(fields) => apply_to_fields(checker, keywords, fields),
        Value::Array(items) => apply_to_items(checker, keywords, items),
        Value::Null | Value::Bool(_) | Value::String(_) => return,
    }
    let target = keywords.get("$ref").and_then(Value::as_str).and_then(|name| checker.resolve(name));
    for schema in target.into_iter().chain(forms::list(keywords, "allOf")) {
        apply(checker, schema, value, depth + 1);
    }
    for name in ["anyOf", "oneOf"] {
        apply_forms(checker, forms::list(keywords, name), value, depth + 1);
    }
}

fn apply_to_number(keywords: &Map<String, Value>, value: &mut Value) {
    if is_clamped(keywords) {
        move_into_range(keywords, value);
    }
    if scalar::wants(keywords, "integer") && !scalar::wants(keywords, "number") {
        without_fraction(value);
    }
}

fn apply_to_fields(checker: &Checker, keywords: &Map<String, Value>, fields: &mut Map<String, Value>) {
    for (name, field) in fields {
        for schema in object::schemas_of(checker, keywords, name) {
            apply(checker, schema, field, 0);
        }
    }
}

fn apply_to_items(checker: &Checker, keywords: &Map<String, Value>, items: &mut [Value]) {
    for (index, item) in items.iter_mut().enumerate() {
        if let Some(schema) = object::schema_of_item(keywords, index) {
            apply(checker, schema, item, 0);
        }
    }
}

/// Of several forms, the one that is meant; where that cannot be told at a glance, the first that fits then.
fn apply_forms(checker: &Checker, forms: &[Value], value: &mut Value, depth: usize) {
    let meant: Vec<&Value> = forms.iter().filter(|form| forms::may_be_meant(checker, form, value)).collect();
    if let [only] = meant.as_slice() {
        return apply(checker, only, value, depth);
    }
    for form in meant {
        let mut moved = value.clone();
        apply(checker, form, &mut moved, depth);
        if checker.fits(form, &moved) {
            *value = moved;
            return;
        }
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
