//! `allOf`, `anyOf`, `oneOf`: enums with data, optional structs. Where no form fits, the one that was
//! probably meant says what is wrong.

use serde_json::{Map, Value};

use super::words::{either, shown};
use super::{At, Checker};
use crate::Problems;

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
    for name in ["anyOf", "oneOf"] {
        let forms = list(keywords, name);
        if !forms.is_empty() {
            check_any(checker, forms, value, at, problems);
        }
    }
}

fn list<'a>(keywords: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    keywords.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn check_any(checker: &Checker, forms: &[Value], value: &Value, at: &At<'_>, problems: &mut Problems) {
    let mut tried: Vec<(&Value, Problems)> = Vec::new();
    for form in forms {
        let mut found = Problems::default();
        checker.visit(form, value, at, &mut found);
        if found.is_empty() {
            return;
        }
        tried.push((form, found));
    }
    if let Some(choices) = choices(forms) {
        return problems.add(&at.path(), format!("must be {choices}, not {}", shown(value)));
    }
    // `null` is the other half of an optional value, and never what a wrong value was meant to be.
    tried.retain(|(form, _)| form["type"] != "null");
    let same_tag = tried.iter().position(|(form, _)| has_tag_of(checker, form, value));
    let best = same_tag.or_else(|| (0..tried.len()).min_by_key(|index| tried[*index].1.len()));
    let Some(best) = best else { return };
    let (count, found) = (tried.len(), tried.swap_remove(best).1);
    if count > 1 && same_tag.is_none() {
        problems.add(&at.path(), format!("fits none of its {count} forms; for the closest of them:"));
    }
    problems.extend(found);
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

/// Whether a form of a tagged enum names the same variant as the value.
fn has_tag_of(checker: &Checker, form: &Value, value: &Value) -> bool {
    let form =
        form.get("$ref").and_then(Value::as_str).and_then(|name| checker.resolve(name)).unwrap_or(form);
    let Some(properties) = form.get("properties").and_then(Value::as_object) else { return false };
    let mut tags = properties.iter().filter_map(|(name, schema)| Some((name, schema.get("const")?)));
    tags.any(|(name, tag)| value.get(name) == Some(tag))
        || properties.len() == 1 && properties.keys().all(|name| value.get(name).is_some())
}
