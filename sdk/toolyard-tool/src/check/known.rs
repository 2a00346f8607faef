//! The supported keywords of a schema. A constraint that is not checked would accept everything, or
//! reject everything under `not`; it is therefore rejected when the set is built, like an invalid
//! pattern. Keywords that only describe, such as `title`, `format` or `x-…`, are allowed anywhere.

use serde_json::{Map, Value};

use crate::schema;

/// Keywords that are conditions and are not checked. The first two are of older drafts.
const REFUSED: [&str; 6] = [
    "additionalItems",
    "dependencies",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
    "$recursiveAnchor",
];

/// Panics on a condition that cannot be checked.
pub(super) fn check(schema: &mut Value) {
    let whole = schema.clone();
    schema::each(schema, |keywords| {
        for name in REFUSED {
            assert!(!keywords.contains_key(name), "{}", cannot(&format!("`{name}`")));
        }
        assert!(!keywords.get("items").is_some_and(Value::is_array), "{}", cannot("a list of `items`"));
        if let Some(name) = keywords.get("$ref").and_then(Value::as_str) {
            assert!(target(&whole, name).is_some(), "the reference `{name}` in a schema leads nowhere");
        }
        for name in ["not", "if"] {
            check_condition(keywords, name);
        }
    });
}

/// `unevaluatedProperties` comes from flattened structs that refuse unknown fields, or take any; reading them
/// does the same. In a condition nothing is deserialized.
fn check_condition(keywords: &mut Map<String, Value>, name: &str) {
    if let Some(condition) = keywords.get_mut(name) {
        schema::each(condition, |keywords| {
            let is_known = !keywords.contains_key("unevaluatedProperties");
            assert!(is_known, "{}", cannot(&format!("`unevaluatedProperties` under `{name}`")));
        });
    }
}

fn cannot(what: &str) -> String {
    format!("{what} in a schema cannot be checked: express it differently, or with `check` and `rule`")
}

/// The target of a reference. It is part of a URI, so unusual names are percent-encoded in it.
pub(super) fn target<'a>(whole: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.is_empty() {
        return Some(whole);
    }
    whole.pointer(pointer).or_else(|| whole.pointer(&percent_decoded(pointer)?))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
