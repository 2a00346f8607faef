//! Types, choices, ranges, lengths and patterns.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::limits::{self, compare};
use super::words::{counted, did_you_mean, either, shown};
use super::{At, Checker};
use crate::Problems;

/// Whether a type is among those that a schema allows.
pub(super) fn wants(keywords: &Map<String, Value>, name: &str) -> bool {
    match keywords.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

pub(super) fn fits_type(keywords: &Map<String, Value>, value: &Value) -> bool {
    match keywords.get("type") {
        Some(Value::String(name)) => is(name, value),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(|name| is(name, value)),
        _ => true,
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        _ => true,
    }
}

pub(super) fn check(
    checker: &Checker,
    keywords: &Map<String, Value>,
    value: &Value,
    at: &At<'_>,
    problems: &mut Problems,
) {
    if let Some(complaint) = choice(keywords, value) {
        at.blame(problems, complaint);
    }
    let complaints = match value {
        Value::Number(_) => [range(keywords, value), None],
        Value::String(text) => text_complaints(checker, keywords, text),
        _ => return,
    };
    for complaint in complaints.into_iter().flatten() {
        at.blame(problems, complaint);
    }
}

/// A text that must not be empty needs only that one complaint.
fn text_complaints(checker: &Checker, keywords: &Map<String, Value>, text: &str) -> [Option<String>; 2] {
    match length(keywords, text) {
        Some(complaint) if text.is_empty() => [Some(complaint), None],
        complaint => [complaint, pattern(checker, keywords, text)],
    }
}

fn choice(keywords: &Map<String, Value>, value: &Value) -> Option<String> {
    let choices: &[Value] = match (keywords.get("enum"), keywords.get("const")) {
        (Some(Value::Array(choices)), _) => choices,
        (_, Some(only)) => std::slice::from_ref(only),
        _ => return None,
    };
    if choices.contains(value) {
        return None;
    }
    let names: Vec<String> = choices.iter().map(Value::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let meant = value.as_str().map(|text| did_you_mean(text, choices.iter().filter_map(Value::as_str)));
    Some(format!("must be {}, not {}{}", either(&names), shown(value), meant.unwrap_or_default()))
}

fn range(keywords: &Map<String, Value>, value: &Value) -> Option<String> {
    let is = |beyond: Ordering, name: &str| {
        keywords.get(name).is_some_and(|bound| compare(value, bound) == Some(beyond))
    };
    let bound = |name: &str| keywords.get(name).filter(|bound| bound.is_number());
    if is(Ordering::Less, "minimum") || is(Ordering::Greater, "maximum") {
        let shown_bound = |name: &str, broken: Ordering| {
            bound(name).filter(|_| is(broken, name) || !limits::is_silent(keywords, name))
        };
        let wanted = match (shown_bound("minimum", Ordering::Less), shown_bound("maximum", Ordering::Greater))
        {
            (Some(least), Some(most)) => format!("from {least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, most) => format!("at most {}", most.unwrap_or(&Value::Null)),
        };
        return Some(format!("must be {wanted}, not {value}"));
    }
    let at_most = |name: &str| bound(name).filter(|_| !is(Ordering::Greater, name));
    if let Some(least) = at_most("exclusiveMinimum") {
        return Some(format!("must be greater than {least}, not {value}"));
    }
    let at_least = |name: &str| bound(name).filter(|_| !is(Ordering::Less, name));
    if let Some(most) = at_least("exclusiveMaximum") {
        return Some(format!("must be less than {most}, not {value}"));
    }
    multiple(keywords, value)
}

fn multiple(keywords: &Map<String, Value>, value: &Value) -> Option<String> {
    let step = keywords.get("multipleOf")?;
    let times = value.as_f64()? / step.as_f64().filter(|step| *step > 0.0)?;
    let is_multiple = (times - times.round()).abs() < 1e-9;
    (!is_multiple).then(|| format!("must be a multiple of {step}, not {value}"))
}

fn length(keywords: &Map<String, Value>, text: &str) -> Option<String> {
    let count = text.chars().count() as u64;
    let complaint = amount(keywords, count, ("minLength", "maxLength"), "character")?;
    if text.is_empty() { Some("must not be empty".into()) } else { Some(complaint) }
}

/// Too few or too many of something.
pub(super) fn amount(
    keywords: &Map<String, Value>,
    count: u64,
    names: (&str, &str),
    unit: &str,
) -> Option<String> {
    let least = keywords.get(names.0).and_then(Value::as_u64);
    let most = keywords.get(names.1).and_then(Value::as_u64);
    if least.is_some_and(|least| count < least) {
        let least = counted(least.unwrap_or_default(), unit);
        return Some(format!("must have at least {least}, not {count}"));
    }
    let most = counted(most.filter(|most| count > *most)?, unit);
    Some(format!("must have at most {most}, not {count}"))
}

fn pattern(checker: &Checker, keywords: &Map<String, Value>, text: &str) -> Option<String> {
    let pattern = keywords.get("pattern")?.as_str()?;
    let fits = checker.pattern(pattern)?.is_match(text);
    (!fits).then(|| format!("must match the pattern {pattern}, which {} does not", shown(&text.into())))
}
