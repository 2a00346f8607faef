//! Puts conditions at the top of a schema in words: the interfaces of some models refuse such a schema, and with it the
//! whole list of tools. The conditions are still checked.

use serde_json::{Map, Value};

use super::forms::{all_required, required_alone};
use super::words::together;

/// Moves conditions from the top of a schema into its description, as far as there are words for them.
pub(super) fn conditions_in_words(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else { return };
    let found = [("not", excluded(keywords)), ("oneOf", one_of(keywords)), ("anyOf", any_of(keywords))];
    for (name, words) in found {
        let Some(words) = words else { continue };
        keywords.remove(name);
        let text = match keywords.get("description").and_then(Value::as_str) {
            Some(text) => format!("{text} {words}"),
            None => words,
        };
        keywords.insert("description".into(), text.into());
    }
}

fn excluded(keywords: &Map<String, Value>) -> Option<String> {
    let names = required_alone(keywords.get("not")?).filter(|names| !names.is_empty())?;
    Some(format!("{}.", not_given(&names)))
}

/// "`a` and `b` must not be given together"
pub(super) fn not_given(names: &[&str]) -> String {
    let end = if names.len() > 1 { " together" } else { "" };
    format!("{} must not be given{end}", together(names.iter().copied()))
}

fn one_of(keywords: &Map<String, Value>) -> Option<String> {
    Some(format!("Give one of {}, and only one.", all_required(keywords.get("oneOf")?.as_array()?)?))
}

fn any_of(keywords: &Map<String, Value>) -> Option<String> {
    Some(format!("Give at least one of {}.", all_required(keywords.get("anyOf")?.as_array()?)?))
}
