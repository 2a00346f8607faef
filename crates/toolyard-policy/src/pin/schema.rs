//! How one JSON Schema differs from another: whether it admits more, less, or both. What is not understood counts as
//! both, so no change of a schema passes as a change of wording.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// How a schema differs from another in what it admits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) wording: bool,
    pub(super) widened: bool,
    pub(super) narrowed: bool,
}

impl Change {
    const WIDENED: Self = Self { wording: false, widened: true, narrowed: false };
    const NARROWED: Self = Self { wording: false, widened: false, narrowed: true };
    const BOTH: Self = Self { wording: false, widened: true, narrowed: true };

    fn and(self, other: Self) -> Self {
        Self {
            wording: self.wording || other.wording,
            widened: self.widened || other.widened,
            narrowed: self.narrowed || other.narrowed,
        }
    }

    /// The same for something that a schema must not match.
    fn reversed(self) -> Self {
        Self { widened: self.narrowed, narrowed: self.widened, ..self }
    }
}

/// Keywords that do not validate.
const WORDS: [&str; 6] = ["title", "description", "examples", "$comment", "deprecated", "$schema"];
/// A larger number admits less.
const LEAST: [&str; 6] =
    ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"];
/// A larger number admits more.
const MOST: [&str; 6] =
    ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"];
/// Each restricts by being there.
const RESTRICTIONS: [&str; 6] =
    ["pattern", "format", "multipleOf", "uniqueItems", "contentEncoding", "contentMediaType"];
/// One schema each, which everything fits if it is missing.
const INNER: [&str; 7] = [
    "items",
    "additionalProperties",
    "unevaluatedProperties",
    "additionalItems",
    "contains",
    "propertyNames",
    "unevaluatedItems",
];

/// How `new` differs from `old`; a schema that is missing admits everything.
pub(super) fn compare(old: Option<&Value>, new: Option<&Value>) -> Change {
    let (old, new) = (old.unwrap_or(&Value::Bool(true)), new.unwrap_or(&Value::Bool(true)));
    if old == new {
        return Change::default();
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => objects(old, new),
        (Value::Bool(true), Value::Object(new)) => objects(&Map::new(), new),
        (Value::Object(old), Value::Bool(true)) => objects(old, &Map::new()),
        (_, Value::Bool(false)) => Change::NARROWED,
        (Value::Bool(false), _) => Change::WIDENED,
        _ => Change::BOTH,
    }
}

fn objects(old: &Map<String, Value>, new: &Map<String, Value>) -> Change {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    changed.fold(Change::default(), |change, key| change.and(keyword(key, old, new)))
}

fn keyword(key: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Change {
    let (before, after) = (old.get(key), new.get(key));
    match key {
        _ if WORDS.contains(&key) => Change { wording: true, ..Change::default() },
        "type" => sets(&types(before), &types(after)),
        "enum" | "const" => match (allowed(before), allowed(after)) {
            (None, Some(_)) => Change::NARROWED,
            (Some(_), None) => Change::WIDENED,
            (before, after) => sets(&before.unwrap_or_default(), &after.unwrap_or_default()),
        },
        "required" => sets(&names(before), &names(after)).reversed(),
        "properties" | "patternProperties" | "dependentSchemas" => properties(before, after),
        "$defs" | "definitions" => common(before, after),
        "anyOf" | "oneOf" | "prefixItems" => branches(before, after),
        "allOf" => branches(before, after).reversed(),
        "not" => compare(before, after).reversed(),
        // What a client sends if the model does not.
        "default" => Change::WIDENED,
        _ if INNER.contains(&key) => compare(before, after),
        _ if LEAST.contains(&key) => limits(before, after, |before, after| after > before),
        _ if MOST.contains(&key) => limits(before, after, |before, after| after < before),
        _ if RESTRICTIONS.contains(&key) => match (before, after) {
            (None, _) => Change::NARROWED,
            (_, None) => Change::WIDENED,
            _ => Change::BOTH,
        },
        _ => Change::BOTH,
    }
}

fn sets(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Change {
    Change { widened: !new.is_subset(old), narrowed: !old.is_subset(new), ..Change::default() }
}

/// Integers are numbers, so a schema of both is one of numbers.
fn types(value: Option<&Value>) -> BTreeSet<String> {
    let all = ["array", "boolean", "integer", "null", "number", "object", "string"];
    let mut types: BTreeSet<String> = match value {
        Some(Value::String(one)) => [one.clone()].into(),
        Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => all.into_iter().map(str::to_owned).collect(),
    };
    if types.contains("number") {
        types.insert("integer".to_owned());
    }
    types
}

/// The values that `enum` or `const` admits.
fn allowed(value: Option<&Value>) -> Option<BTreeSet<String>> {
    Some(match value? {
        Value::Array(some) => some.iter().map(Value::to_string).collect(),
        one => [one.to_string()].into(),
    })
}

fn names(value: Option<&Value>) -> BTreeSet<String> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// A limit that is missing admits everything.
fn limits(before: Option<&Value>, after: Option<&Value>, is_stricter: fn(f64, f64) -> bool) -> Change {
    match (before.and_then(Value::as_f64), after.and_then(Value::as_f64)) {
        (None, Some(_)) => Change::NARROWED,
        (Some(before), Some(after)) if is_stricter(before, after) => Change::NARROWED,
        (Some(_), _) => Change::WIDENED,
        (None, None) => Change::BOTH,
    }
}

/// A property that is new is more that can be sent, also where a schema admitted it without naming it.
fn properties(before: Option<&Value>, after: Option<&Value>) -> Change {
    let empty = Map::new();
    let old = before.and_then(Value::as_object).unwrap_or(&empty);
    let new = after.and_then(Value::as_object).unwrap_or(&empty);
    let added = new.keys().any(|key| !old.contains_key(key));
    let removed = old.keys().any(|key| !new.contains_key(key));
    let own = Change { widened: added, narrowed: removed, wording: false };
    own.and(common(before, after))
}

/// Compares the keywords that both schemas have.
fn common(before: Option<&Value>, after: Option<&Value>) -> Change {
    let (Some(old), Some(new)) = (before.and_then(Value::as_object), after.and_then(Value::as_object)) else {
        return Change::default();
    };
    let both = old.iter().filter_map(|(key, old)| Some((old, new.get(key)?)));
    both.fold(Change::default(), |change, (old, new)| change.and(compare(Some(old), Some(new))))
}

/// Alternatives, in order.
fn branches(before: Option<&Value>, after: Option<&Value>) -> Change {
    let (Some(old), Some(new)) = (before.and_then(Value::as_array), after.and_then(Value::as_array)) else {
        return if before.is_none() { Change::NARROWED } else { Change::WIDENED };
    };
    let own = Change { widened: new.len() > old.len(), narrowed: new.len() < old.len(), wording: false };
    old.iter().zip(new).fold(own, |change, (old, new)| change.and(compare(Some(old), Some(new))))
}
