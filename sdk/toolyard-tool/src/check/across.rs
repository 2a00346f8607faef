//! What fields say about each other: which need one another, which exclude one another, and what follows from
//! what. Schemars writes none of this by itself; it comes from `extend` on the struct.

use serde_json::{Map, Value};

use super::scalar::amount;
use super::words::shown;
use super::{At, CONDITION, Checker, DEEPEST};
use crate::Problems;

pub(super) fn check(
    checker: &Checker,
    keywords: &Map<String, Value>,
    value: &Value,
    at: &At<'_>,
    problems: &mut Problems,
) {
    if let Value::Object(fields) = value {
        check_needs(keywords, fields, at, problems);
        let count = fields.len() as u64;
        if let Some(complaint) = amount(keywords, count, ("minProperties", "maxProperties"), "fields") {
            problems.add(&at.path(), complaint);
        }
    }
    if at.depth >= DEEPEST {
        return;
    }
    let within = at.deeper(CONDITION);
    if let Some(not) = keywords.get("not").filter(|not| checker.fits(not, value, &within)) {
        problems.add(&at.path(), refusal(not, value));
    }
    if let Some(condition) = keywords.get("if") {
        let follows = if checker.fits(condition, value, &within) { "then" } else { "else" };
        if let Some(schema) = keywords.get(follows) {
            checker.visit(schema, value, &within, problems);
        }
    }
}

fn check_needs(
    keywords: &Map<String, Value>,
    fields: &Map<String, Value>,
    at: &At<'_>,
    problems: &mut Problems,
) {
    let all = keywords.get("dependentRequired").and_then(Value::as_object).into_iter().flatten();
    for (name, needed) in all.filter(|(name, _)| fields.contains_key(*name)) {
        let needed = needed.as_array().into_iter().flatten().filter_map(Value::as_str);
        for missing in needed.filter(|needed| !fields.contains_key(*needed)) {
            problems.add(&at.field(missing).path(), format!("is missing: `{name}` needs it"));
        }
    }
}

/// Why a value that fits `not` must not be.
fn refusal(not: &Value, value: &Value) -> String {
    let together = not.as_object().filter(|keywords| keywords.len() == 1);
    match together.and_then(|keywords| keywords.get("required")).and_then(Value::as_array) {
        Some(names) if !names.is_empty() => {
            let names: Vec<String> =
                names.iter().map(|name| format!("`{}`", name.as_str().unwrap_or("?"))).collect();
            match names.as_slice() {
                [one] => format!("must not have {one}"),
                [first @ .., last] => format!("must not have {} and {last} together", first.join(", ")),
                [] => String::new(),
            }
        }
        _ if not.get("const").is_some() => format!("must not be {}", shown(value)),
        _ => format!("must not fit {}", shown(not)),
    }
}
