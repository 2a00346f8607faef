//! Relations between fields: which need one another, which exclude one another, and what follows from what. Schemars
//! writes none of this by itself; it comes from `extend` on the struct.
//!
//! For an optional field, `null` means that it is absent, and many clients send every field. So here, and in the forms of
//! an object, null counts as not given, unlike in JSON Schema.

use serde_json::{Map, Value};

use super::because::{because, given};
use super::describe::not_given;
use super::object::has;
use super::scalar::amount;
use super::words::{shown, together};
use super::{At, Checker, forms};
use crate::Problems;

const CONDITIONS: [&str; 6] =
    ["not", "if", "dependentRequired", "dependentSchemas", "minProperties", "maxProperties"];

pub(super) fn check(
    checker: &Checker,
    keywords: &Map<String, Value>,
    value: &Value,
    at: &At<'_>,
    problems: &mut Problems,
) {
    let within = at.deeper();
    if let Value::Object(fields) = value {
        check_needs(keywords, fields, at, problems);
        check_count(keywords, fields, at, problems);
        let more = keywords.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten();
        for (name, schema) in more.filter(|(name, _)| has(fields, name, at)) {
            let found = checker.found(schema, value, &within);
            problems.extend(found.reworded(|what| format!("{what}{}", given(name, at))));
        }
    }
    if let Some(not) = keywords.get("not").filter(|not| checker.fits(not, value, &within)) {
        refuse(not, value, at, problems);
    }
    if let Some(condition) = keywords.get("if") {
        let is_so = checker.fits(condition, value, &within);
        if let Some(schema) = keywords.get(if is_so { "then" } else { "else" }) {
            let found = checker.found(schema, value, &within);
            problems.extend(found.reworded(|what| format!("{what}{}", because(condition, is_so, at))));
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
    for (name, needed) in all.filter(|(name, _)| has(fields, name, at)) {
        let needed = needed.as_array().into_iter().flatten().filter_map(Value::as_str);
        for missing in needed.filter(|needed| !has(fields, needed, at)) {
            problems.add(&at.field(missing).path(), format!("is missing: `{name}` needs it"));
        }
    }
}

fn check_count(
    keywords: &Map<String, Value>,
    fields: &Map<String, Value>,
    at: &At<'_>,
    problems: &mut Problems,
) {
    let count = fields.keys().filter(|name| at.is_given(name)).count() as u64;
    if let Some(complaint) = amount(keywords, count, ("minProperties", "maxProperties"), "field") {
        at.blame(problems, complaint);
    }
}

/// Reports why a value that matches `not` is refused.
fn refuse(not: &Value, value: &Value, at: &At<'_>, problems: &mut Problems) {
    let Some(names) = forms::required_alone(not).filter(|names| !names.is_empty()) else {
        let refused = match not.get("const") {
            Some(_) => format!("must not be {}", shown(value)),
            None => format!("must not fit {}", shown(not)),
        };
        return at.blame(problems, refused);
    };
    let end = if names.len() > 1 { " together" } else { "" };
    let what = format!("must not have {}{end}", together(names.iter().copied()));
    at.blame_or(problems, &what, || not_given(&names));
}

/// The fields that are null and optional, where that makes a difference.
pub(super) fn absent<'v>(
    checker: &Checker,
    keywords: &Map<String, Value>,
    value: &'v Value,
    at: &At<'v>,
) -> Vec<&'v str> {
    let has_any = |names: &[&str]| names.iter().any(|name| keywords.contains_key(*name));
    let has_forms = has_any(&["allOf", "anyOf", "oneOf"]) && keywords.contains_key("properties");
    let Value::Object(fields) = value else { return Vec::new() };
    if !at.absent().is_empty() || !(has_forms || has_any(&CONDITIONS)) {
        return at.absent().to_vec();
    }
    let nulls: Vec<&str> =
        fields.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name.as_str()).collect();
    if nulls.is_empty() {
        return nulls;
    }
    let mut about = Vec::new();
    forms::about(checker, keywords, at, &mut about);
    nulls.into_iter().filter(|name| is_optional(checker, &about, name, at)).collect()
}

/// Whether a field is known, need not be there, and may be null.
fn is_optional(checker: &Checker, about: &[&Map<String, Value>], name: &str, at: &At<'_>) -> bool {
    let required = about.iter().filter_map(|keywords| keywords.get("required")?.as_array()).flatten();
    let schemas: Vec<&Value> =
        about.iter().filter_map(|keywords| keywords.get("properties")?.get(name)).collect();
    let may_be_null = |schema: &&Value| checker.fits(schema, &Value::Null, &at.field(name));
    !schemas.is_empty() && schemas.iter().all(may_be_null) && !required.into_iter().any(|one| one == name)
}
