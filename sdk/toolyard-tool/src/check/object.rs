//! Objects and arrays: what must be there, what must not, and everything inside.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::scalar::amount;
use super::words::{closest, did_you_mean};
use super::{At, Checker};
use crate::Problems;

pub(super) fn check(
    checker: &Checker,
    keywords: &Map<String, Value>,
    value: &Value,
    at: &At<'_>,
    problems: &mut Problems,
) {
    match value {
        Value::Object(fields) => check_fields(checker, keywords, fields, at, problems),
        Value::Array(items) => check_items(checker, keywords, items, at, problems),
        _ => {}
    }
}

fn check_fields(
    checker: &Checker,
    keywords: &Map<String, Value>,
    fields: &Map<String, Value>,
    at: &At<'_>,
    problems: &mut Problems,
) {
    let none = Map::new();
    let properties = keywords.get("properties").and_then(Value::as_object).unwrap_or(&none);
    for name in keywords.get("required").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = name.as_str().filter(|name| !fields.contains_key(*name)) else { continue };
        let unknown = fields.keys().map(String::as_str).filter(|said| !properties.contains_key(*said));
        let instead = closest(name, unknown).map(|said| format!(" (there is `{said}` instead)"));
        problems.add(&at.field(name).path(), format!("is missing{}", instead.unwrap_or_default()));
    }
    for (name, value) in fields {
        if problems.has_more() {
            return;
        }
        match (properties.get(name), keywords.get("additionalProperties")) {
            (None, Some(Value::Bool(false))) => {
                let meant = did_you_mean(name, properties.keys().map(String::as_str));
                problems.add(&at.field(name).path(), format!("is not known{meant}"));
            }
            (Some(schema), _) | (None, Some(schema)) => {
                checker.visit(schema, value, &at.field(name), problems);
            }
            (None, None) => {}
        }
    }
}

fn check_items(
    checker: &Checker,
    keywords: &Map<String, Value>,
    items: &[Value],
    at: &At<'_>,
    problems: &mut Problems,
) {
    if let Some(complaint) = amount(keywords, items.len() as u64, ("minItems", "maxItems"), "items") {
        problems.add(&at.path(), complaint);
    }
    if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
        let mut seen = HashSet::new();
        if !items.iter().all(|item| seen.insert(item.to_string())) {
            problems.add(&at.path(), "must not hold the same item twice");
        }
    }
    let first = keywords.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    // Of too many, those that are too many are not looked at.
    let most = keywords.get("maxItems").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
    for (index, item) in items.iter().enumerate().take(most.unwrap_or(usize::MAX)) {
        if problems.has_more() {
            return;
        }
        if let Some(schema) = first.get(index).or_else(|| keywords.get("items")) {
            checker.visit(schema, item, &at.item(index), problems);
        }
    }
}
