//! Objects and arrays: required and unknown fields, and everything inside.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::scalar::amount;
use super::words::{closest, did_you_mean, either, shown};
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
    for name in keywords.get("required").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = name.as_str().filter(|name| !has(fields, name, at)) else { continue };
        let instead = closest(name, unknown(keywords, fields));
        let instead = instead.map(|name| format!(" (there is `{name}` instead)")).unwrap_or_default();
        problems.add(&at.field(name).path(), format!("is missing{instead}"));
    }
    check_names(checker, keywords, fields, at, problems);
    for (name, value) in fields.iter().filter(|(name, _)| at.is_given(name)) {
        if problems.has_more() {
            return;
        }
        let (mut schemas, at) = (schemas_of(checker, keywords, name).peekable(), at.field(name));
        if schemas.peek() == Some(&&Value::Bool(false)) {
            problems.add(&at.path(), format!("is not known{}", instead_of(keywords, name)));
            continue;
        }
        schemas.for_each(|schema| checker.visit(schema, value, &at, problems));
    }
}

/// The fields that a struct does not have. A condition names only some of its fields.
fn unknown<'a>(
    keywords: &'a Map<String, Value>,
    fields: &'a Map<String, Value>,
) -> impl Iterator<Item = &'a str> {
    let is_unknown = |name: &&str| within(keywords, "properties").is_some_and(|all| !all.contains_key(*name));
    fields.keys().map(String::as_str).filter(is_unknown)
}

fn check_names(
    checker: &Checker,
    keywords: &Map<String, Value>,
    fields: &Map<String, Value>,
    at: &At<'_>,
    problems: &mut Problems,
) {
    let Some(schema) = keywords.get("propertyNames") else { return };
    for name in fields.keys().filter(|name| at.is_given(name)) {
        let found = checker.found(schema, &name.as_str().into(), &at.field(name));
        problems.extend(found.reworded(|what| format!("has a name that {what}")));
    }
}

/// Whether a field is given.
pub(super) fn has(fields: &Map<String, Value>, name: &str, at: &At<'_>) -> bool {
    fields.contains_key(name) && at.is_given(name)
}

/// The schemas that a field must fit: those of its name and of its pattern, or else that of all others.
pub(super) fn schemas_of<'a>(
    checker: &'a Checker,
    keywords: &'a Map<String, Value>,
    name: &'a str,
) -> impl Iterator<Item = &'a Value> {
    let named = within(keywords, "properties").and_then(|properties| properties.get(name));
    let patterned = within(keywords, "patternProperties")
        .into_iter()
        .flatten()
        .filter(|(pattern, _)| checker.pattern(pattern).is_some_and(|pattern| pattern.is_match(name)));
    let mut known = named.into_iter().chain(patterned.map(|(_, schema)| schema)).peekable();
    let others = keywords.get("additionalProperties").filter(|_| known.peek().is_none());
    known.chain(others)
}

/// The known field that an unknown name probably means.
fn instead_of(keywords: &Map<String, Value>, name: &str) -> String {
    let properties = within(keywords, "properties").into_iter().flat_map(Map::keys);
    let meant = did_you_mean(name, properties.map(String::as_str));
    let patterns: Vec<&str> =
        within(keywords, "patternProperties").into_iter().flat_map(Map::keys).map(String::as_str).collect();
    if patterns.is_empty() || !meant.is_empty() {
        return meant;
    }
    format!(": such a name must match the pattern {}", either(&patterns))
}

fn within<'a>(keywords: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    keywords.get(key).and_then(Value::as_object)
}

fn check_items(
    checker: &Checker,
    keywords: &Map<String, Value>,
    items: &[Value],
    at: &At<'_>,
    problems: &mut Problems,
) {
    if let Some(complaint) = amount(keywords, items.len() as u64, ("minItems", "maxItems"), "item") {
        at.blame(problems, complaint);
    }
    if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
        let mut seen = HashSet::new();
        if !items.iter().all(|item| seen.insert(item.to_string())) {
            at.blame(problems, "must not hold the same item twice");
        }
    }
    check_contained(checker, keywords, items, at, problems);
    // Items beyond the limit are not checked.
    let most = keywords.get("maxItems").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
    for (index, item) in items.iter().enumerate().take(most.unwrap_or(usize::MAX)) {
        if problems.has_more() {
            return;
        }
        if let Some(schema) = schema_of_item(keywords, index) {
            checker.visit(schema, item, &at.item(index), problems);
        }
    }
}

/// The number of items of a kind.
fn check_contained(
    checker: &Checker,
    keywords: &Map<String, Value>,
    items: &[Value],
    at: &At<'_>,
    problems: &mut Problems,
) {
    let Some(wanted) = keywords.get("contains") else { return };
    let fitting = |(index, item)| checker.fits(wanted, item, &at.item(index));
    let count = items.iter().enumerate().filter(|item| fitting(*item)).count() as u64;
    let least = keywords.get("minContains").and_then(Value::as_u64).unwrap_or(1);
    let most = keywords.get("maxContains").and_then(Value::as_u64);
    let kind = |count: u64| match (wanted.get("const"), count) {
        (Some(only), 1) => format!("1 item that is {}", shown(only)),
        (Some(only), _) => format!("{count} items that are {}", shown(only)),
        (None, 1) => format!("1 item that fits {}", shown(wanted)),
        (None, _) => format!("{count} items that fit {}", shown(wanted)),
    };
    if count < least {
        at.blame(problems, format!("must hold at least {}, not {count}", kind(least)));
    } else if let Some(most) = most.filter(|most| count > *most) {
        at.blame(problems, format!("must hold at most {}, not {count}", kind(most)));
    }
}

/// The schema of an item: that of its place, or else that of all others.
pub(super) fn schema_of_item(keywords: &Map<String, Value>, index: usize) -> Option<&Value> {
    let first = keywords.get("prefixItems").and_then(Value::as_array);
    first.and_then(|first| first.get(index)).or_else(|| keywords.get("items"))
}
