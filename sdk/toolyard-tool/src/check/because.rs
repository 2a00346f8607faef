//! The reason of a condition in words, as far as the condition is simple.

use serde_json::{Map, Value};

use super::At;
use super::words::{either, shown};

/// " (because `kind` is "tape")", where the condition is simple enough to be put in words.
pub(super) fn because(condition: &Value, is_so: bool, at: &At<'_>) -> String {
    let facts = condition.as_object().and_then(|keywords| facts(keywords, is_so, at));
    match facts.as_deref() {
        Some([only]) => format!(" (because {only})"),
        Some([first @ .., last]) if is_so => format!(" (because {} and {last})", first.join(", ")),
        _ => String::new(),
    }
}

/// " (because `kind` is given)"
pub(super) fn given(name: &str, at: &At<'_>) -> String {
    format!(" (because `{}` is given)", at.field(name).path())
}

/// The condition (or its negation) in words, for each field.
fn facts(keywords: &Map<String, Value>, is_so: bool, at: &At<'_>) -> Option<Vec<String>> {
    let is = if is_so { "is" } else { "is not" };
    let properties = keywords.get("properties").and_then(Value::as_object);
    let required = keywords.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|all| all.iter().any(|one| one == name));
    let mut facts = Vec::new();
    for (name, schema) in properties.into_iter().flatten() {
        // A condition also holds for an absent field, which would be no reason.
        if is_so && !is_required(name) {
            return None;
        }
        facts.push(format!("`{}` {is} {}", at.field(name).path(), value(schema)?));
    }
    for name in required.into_iter().flatten() {
        let name = name.as_str().filter(|name| properties.is_none_or(|all| !all.contains_key(*name)));
        facts.extend(name.map(|name| format!("`{}` {is} given", at.field(name).path())));
    }
    let is_simple = |name: &String| ["properties", "required", "type"].contains(&name.as_str());
    keywords.keys().all(is_simple).then_some(facts)
}

/// The only value that a schema allows, or the few.
fn value(schema: &Value) -> Option<String> {
    let keywords = schema.as_object().filter(|keywords| keywords.len() == 1)?;
    if let Some(only) = keywords.get("const") {
        return Some(shown(only));
    }
    let several: Vec<String> = keywords.get("enum")?.as_array()?.iter().map(shown).collect();
    let several: Vec<&str> = several.iter().map(String::as_str).collect();
    Some(either(&several))
}
