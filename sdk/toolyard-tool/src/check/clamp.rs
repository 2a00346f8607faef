//! Numbers that are moved into their range instead of being refused, and `5.0` where `5` was meant.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value, json};

use super::at::{At, parts};
use super::limits::{self, compare, whole};
use super::{Checker, forms, is_clamped, object, scalar};
use crate::schema::{CLAMP, PATH};

/// Clamps numbers, wherever they are in the value.
pub(super) fn apply(checker: &Checker, schema: &Value, value: &mut Value, at: &At<'_>) {
    let Value::Object(keywords) = schema else { return };
    if !at.may_look(value) {
        return;
    }
    match value {
        Value::Number(_) => apply_to_number(keywords, value),
        Value::Object(fields) => apply_to_fields(checker, keywords, fields, at),
        Value::Array(items) => apply_to_items(checker, keywords, items, at),
        Value::Null | Value::Bool(_) | Value::String(_) => return,
    }
    let at = at.deeper();
    for schema in checker.target(keywords).into_iter().chain(forms::list(keywords, "allOf")) {
        apply(checker, schema, value, &at);
    }
    for name in ["anyOf", "oneOf"] {
        apply_forms(checker, forms::list(keywords, name), value, &at);
    }
}

fn apply_to_number(keywords: &Map<String, Value>, value: &mut Value) {
    if is_clamped(keywords) && scalar::fits_type(keywords, value) {
        move_into_range(keywords, value);
    }
    if scalar::wants(keywords, "integer") && !scalar::wants(keywords, "number") {
        without_fraction(value);
    }
}

fn apply_to_fields(
    checker: &Checker,
    keywords: &Map<String, Value>,
    fields: &mut Map<String, Value>,
    at: &At<'_>,
) {
    for (name, field) in fields {
        for schema in object::schemas_of(checker, keywords, name) {
            apply(checker, schema, field, &at.field(name));
        }
    }
}

fn apply_to_items(checker: &Checker, keywords: &Map<String, Value>, items: &mut [Value], at: &At<'_>) {
    for (index, item) in items.iter_mut().enumerate() {
        if let Some(schema) = object::schema_of_item(keywords, index) {
            apply(checker, schema, item, &at.item(index));
        }
    }
}

/// Of several forms, applies the one that the value can be meant as; if several are possible, the first that fits after
/// clamping.
fn apply_forms(checker: &Checker, forms: &[Value], value: &mut Value, at: &At<'_>) {
    let meant: Vec<&Value> = forms.iter().filter(|form| forms::may_be_meant(checker, form, value)).collect();
    if let [only] = meant.as_slice() {
        return apply(checker, only, value, at);
    }
    for form in meant {
        if !at.budget().spend(parts(value)) {
            return;
        }
        let mut moved = value.clone();
        apply(checker, form, &mut moved, at);
        if checker.fits(form, &moved, at) {
            *value = moved;
            return;
        }
    }
}

fn move_into_range(keywords: &Map<String, Value>, value: &mut Value) {
    for (name, beyond) in [("minimum", Ordering::Less), ("maximum", Ordering::Greater)] {
        if let Some(end) = keywords.get(name).filter(|end| compare(value, end) == Some(beyond)) {
            *value = end.clone();
        }
    }
}

/// To JSON Schema `5.0` is an integer, to serde it is not.
fn without_fraction(value: &mut Value) {
    if let Some(whole) = whole(value).filter(|_| value.is_f64()).and_then(Number::from_i128) {
        *value = Value::Number(whole);
    }
}

/// Moves clamped ranges from a schema into its description, so that no client rejects
/// a value that the tool would accept.
pub(super) fn publish(keywords: &mut Map<String, Value>) {
    keywords.remove(PATH);
    if keywords.remove(CLAMP).is_some() {
        describe_range(keywords);
    }
    limits::publish(keywords);
}

fn describe_range(keywords: &mut Map<String, Value>) {
    let silent = ["minimum", "maximum"].map(|name| limits::is_silent(keywords, name).then_some(name));
    let mut take = |name: &str| keywords.remove(name).filter(|_| !silent.contains(&Some(name)));
    let range = match (take("minimum"), take("maximum")) {
        (Some(least), Some(most)) => format!("From {least} to {most}"),
        (Some(least), None) => format!("At least {least}"),
        (None, Some(most)) => format!("At most {most}"),
        (None, None) => return,
    };
    let range = format!("{range}; other values are moved to the nearest of these.");
    let text = match keywords.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text} {range}"),
        None => range,
    };
    keywords.insert("description".into(), json!(text));
}
