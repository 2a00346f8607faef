//! `allOf`, `anyOf`, `oneOf`: enums with data, optional structs. Where no form fits, the problems of the form that
//! was probably meant are reported.

use serde_json::{Map, Value};

use super::scalar::fits_type;
use super::words::{either, shown, together};
use super::{At, Checker};
use crate::Problems;

/// The most schemas that a type has about one value.
const MOST_ABOUT: usize = 64;

pub(super) fn check(
    checker: &Checker,
    keywords: &Map<String, Value>,
    value: &Value,
    at: &At<'_>,
    problems: &mut Problems,
) {
    for schema in list(keywords, "allOf") {
        checker.visit(schema, value, at, problems);
    }
    for (name, enough) in [("anyOf", 1), ("oneOf", 2)] {
        let forms = list(keywords, name);
        if !forms.is_empty() {
            check_any(checker, (forms, enough), value, at, problems);
        }
    }
}

pub(super) fn list<'a>(keywords: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    keywords.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Checks forms until `enough` of them fit: one is required, and of `oneOf` a second is an error.
fn check_any(
    checker: &Checker,
    (forms, enough): (&[Value], usize),
    value: &Value,
    at: &At<'_>,
    problems: &mut Problems,
) {
    let mut tried: Vec<(&Value, Problems)> = Vec::new();
    let mut fitting = 0;
    for form in forms {
        let found = look_into(checker, form, value, at);
        if !found.is_empty() {
            tried.push((form, found));
            continue;
        }
        fitting += 1;
        if fitting == enough {
            break;
        }
    }
    match fitting {
        0 => fits_none(checker, (forms, tried), value, at, problems),
        1 => {}
        _ => fits_two(forms, at, problems),
    }
}

/// Only one form of a tagged enum is checked: with all of them, the time for enums within enums would double with
/// every level.
fn look_into(checker: &Checker, form: &Value, value: &Value, at: &At<'_>) -> Problems {
    let mut found = Problems::default();
    match other_tag(checker, form, value) {
        Some((tag, wanted)) => found.add(&at.field(tag).path(), format!("must be {wanted}")),
        None => checker.visit(form, value, at, &mut found),
    }
    found
}

fn fits_two(forms: &[Value], at: &At<'_>, problems: &mut Problems) {
    match all_required(forms) {
        Some(names) => {
            let what = format!("must have only one of {names}");
            at.blame_or(problems, &what, || format!("give only one of {names}"));
        }
        None => at.blame(problems, "fits two of its forms; it must fit only one"),
    }
}

fn fits_none(
    checker: &Checker,
    (forms, mut tried): (&[Value], Vec<(&Value, Problems)>),
    value: &Value,
    at: &At<'_>,
    problems: &mut Problems,
) {
    if let Some(choices) = choices(forms) {
        return at.blame(problems, format!("must be {choices}, not {}", shown(value)));
    }
    if let Some(names) = all_required(forms) {
        let what = format!("must have one of {names}");
        return at.blame_or(problems, &what, || format!("give one of {names}"));
    }
    // `null` is the other form of an optional value, and never what a wrong value was meant to be.
    tried.retain(|(form, _)| form["type"] != "null");
    if let Some((_, found)) = tried.iter().find(|(form, _)| has_tag_of(checker, form, value)) {
        return problems.extend(found.clone());
    }
    match tags(checker, tried.iter().map(|(form, _)| *form)).filter(|_| value.is_object()) {
        Some((tag, choices)) => {
            let prefix = if value.get(&tag).is_some() { "" } else { "is missing; it " };
            problems.add(&at.field(&tag).path(), format!("{prefix}must be {choices}"));
        }
        None => say_closest(&tried, at, problems),
    }
}

fn say_closest(tried: &[(&Value, Problems)], at: &At<'_>, problems: &mut Problems) {
    let Some((_, closest)) = tried.iter().min_by_key(|(_, found)| found.len()) else { return };
    if tried.iter().any(|(_, found)| found != closest) {
        let count = tried.len();
        at.blame(problems, format!("fits none of its {count} forms; for the closest of them:"));
    }
    problems.extend(closest.clone());
}

/// "`a` or `b`", if every form only requires fields.
pub(super) fn all_required(forms: &[Value]) -> Option<String> {
    let names: Vec<Vec<&str>> = forms.iter().map(required_alone).collect::<Option<_>>()?;
    let names: Vec<String> = names.into_iter().map(together).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Some(either(&names))
}

/// The fields that a schema requires, if it has no other condition.
pub(super) fn required_alone(schema: &Value) -> Option<Vec<&str>> {
    let keywords = schema.as_object().filter(|keywords| keywords.len() == 1)?;
    keywords.get("required")?.as_array()?.iter().map(Value::as_str).collect()
}

/// All schemas that certainly apply to one value: a schema, what it refers to, all of `allOf`, and the type of an
/// optional value that is present.
pub(super) fn about<'a>(
    checker: &'a Checker,
    keywords: &'a Map<String, Value>,
    at: &At<'_>,
    all: &mut Vec<&'a Map<String, Value>>,
) {
    if !at.budget().spend(1) || all.len() > MOST_ABOUT {
        return;
    }
    all.push(keywords);
    let any: Vec<&Value> = list(keywords, "anyOf").iter().filter(|form| form["type"] != "null").collect();
    let only = if let [only] = any.as_slice() { Some(*only) } else { None };
    let more = checker.target(keywords).into_iter().chain(list(keywords, "allOf")).chain(only);
    more.filter_map(Value::as_object).for_each(|keywords| about(checker, keywords, at, all));
}

/// "a, b or c", if every form is a fixed value.
fn choices(forms: &[Value]) -> Option<String> {
    let values: Vec<String> = forms
        .iter()
        .filter(|form| form["type"] != "null")
        .map(|form| match (form.get("const"), form.get("enum")) {
            (Some(only), _) => Some(vec![only.to_string()]),
            (_, Some(Value::Array(several))) => Some(several.iter().map(Value::to_string).collect()),
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?
        .concat();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    Some(either(&values))
}

/// Whether a value may be of this form, by a quick check.
pub(super) fn may_be_meant(checker: &Checker, form: &Value, value: &Value) -> bool {
    let fits_type = |schema: &Value| schema.as_object().is_none_or(|keywords| fits_type(keywords, value));
    fits_type(form)
        && target(checker, form).is_none_or(fits_type)
        && other_tag(checker, form, value).is_none()
}

/// Whether a form of a tagged enum names the same variant as the value.
fn has_tag_of(checker: &Checker, form: &Value, value: &Value) -> bool {
    let is_only = |properties: &Map<String, Value>| {
        properties.len() == 1 && properties.keys().all(|name| value.get(name).is_some())
    };
    tag(checker, form).is_some_and(|(name, tag)| value.get(name) == Some(tag))
        || properties(checker, form).any(is_only)
}

/// The tag of a form of a tagged enum, if the value names another variant.
fn other_tag<'a>(checker: &'a Checker, form: &'a Value, value: &Value) -> Option<(&'a String, &'a Value)> {
    tag(checker, form).filter(|(name, tag)| value.get(name).is_some_and(|found| found != *tag))
}

/// The name of the tag that all forms have, and the values it may take.
fn tags<'a>(checker: &'a Checker, forms: impl Iterator<Item = &'a Value>) -> Option<(String, String)> {
    let tags: Vec<(&String, &Value)> = forms.map(|form| tag(checker, form)).collect::<Option<_>>()?;
    let (name, _) = *tags.first()?;
    let values: Vec<String> = tags.iter().map(|(_, value)| value.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    tags.iter().all(|(other, _)| *other == name).then(|| (name.clone(), either(&values)))
}

/// The property that distinguishes a form of a tagged enum from the others, because it can hold only one value.
fn tag<'a>(checker: &'a Checker, form: &'a Value) -> Option<(&'a String, &'a Value)> {
    properties(checker, form).flatten().find_map(|(name, schema)| Some((name, schema.get("const")?)))
}

/// The properties of a form: its own, then those of what it refers to.
fn properties<'a>(checker: &'a Checker, form: &'a Value) -> impl Iterator<Item = &'a Map<String, Value>> {
    let both = [Some(form), target(checker, form)].into_iter().flatten();
    both.filter_map(|schema| schema.get("properties")?.as_object())
}

fn target<'a>(checker: &'a Checker, form: &Value) -> Option<&'a Value> {
    form.as_object().and_then(|keywords| checker.target(keywords))
}
