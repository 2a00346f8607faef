//! Phrases for messages: what a value is, what it should be, and what was probably meant.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Longer values and names are cut in messages.
const LONGEST: usize = 60;

pub(super) fn wrong_type(keywords: &Map<String, Value>, value: &Value) -> String {
    let names: Vec<&str> = match keywords.get("type") {
        Some(Value::String(name)) => vec![with_article(name)],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(with_article).collect(),
        _ => Vec::new(),
    };
    let given = if is_secret(keywords) { kind_of(value).into() } else { shown(value) };
    format!("must be {}, not {given}", either(&names))
}

/// Whether messages must not quote the value.
fn is_secret(keywords: &Map<String, Value>) -> bool {
    keywords.get("writeOnly") == Some(&Value::Bool(true))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "this string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn with_article(name: &str) -> &str {
    match name {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "an array",
        "object" => "an object",
        other => other,
    }
}

/// The value as JSON, cut where it is long.
pub(super) fn shown(value: &Value) -> String {
    cut(&value.to_string(), LONGEST).into_owned()
}

/// A name in a path, cut where it is long.
pub(super) fn short(name: &str) -> Cow<'_, str> {
    cut(name, LONGEST)
}

/// The first `most` characters of a text.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// "1 item", "2 items".
pub(super) fn counted(count: u64, unit: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// "`a`", "`a` and `b`", "`a`, `b` and `c`".
pub(super) fn together<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        all => all.concat(),
    }
}

/// "a", "a or b", "a, b or c".
pub(super) fn either(names: &[&str]) -> String {
    match names {
        [] => "something else".into(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// " (did you mean `x`?)", if one of the names is close.
pub(super) fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    closest(given, names).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// The name that `given` was probably meant to be. Text that is longer than any name matches none, at no cost.
pub(super) fn closest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let is_name = |text: &str| text.len() <= 4 * LONGEST;
    let limit = given.chars().count() / 3;
    let names = names.into_iter().filter(|name| is_name(given) && is_name(name));
    let near = names.map(|name| (distance(given, name), name)).filter(|(far, _)| *far <= limit);
    near.min_by_key(|(far, _)| *far).map(|(_, name)| name)
}

/// How many letters differ, without regard to case, `_` and `-`.
fn distance(a: &str, b: &str) -> usize {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
    };
    let (a, b) = (plain(a), plain(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
