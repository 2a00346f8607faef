//! JSON into a tree. `serde_json` checks that the text is valid; a second walk finds the spans.

use toolyard_proto::splice::{elements, members};

use super::{Entry, File, Node, Value};
use crate::jsonc;
use crate::problem::{Place, Problem};

pub(crate) fn parse(file: &File) -> Result<Vec<Entry>, Vec<Problem>> {
    // A byte order mark is the one thing that Windows editors put in front.
    let plain = jsonc::plain(&file.text);
    let text = plain.trim_start_matches('\u{feff}');
    let offset = file.text.len() - text.len();
    // As a whole value, because only that bounds the nesting that is walked below.
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        return Err(vec![invalid(file, &error)]);
    }
    let start = text.len() - text.trim_start().len();
    match node(text.as_bytes(), start, offset).value {
        Value::Table(entries) => Ok(entries),
        other => Err(vec![not_an_object(file, offset + start, &other)]),
    }
}

fn invalid(file: &File, error: &serde_json::Error) -> Problem {
    let place = Place::new(&file.path, error.line(), error.column().max(1));
    if let Some((message, help)) = slip(&file.text, error) {
        return problem(place, message, &help);
    }
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    problem(
        place,
        format!("not valid JSON: {what}"),
        "fix it there; comments and trailing commas are allowed",
    )
}

/// Recognises a frequent mistake; returns the message and the correct form.
fn slip(text: &str, error: &serde_json::Error) -> Option<(String, String)> {
    let line = text.lines().nth(error.line().checked_sub(1)?)?;
    let printed = error.to_string();
    if printed.starts_with("invalid escape") {
        let escape: String = line.get(..error.column())?.chars().rev().take(2).collect();
        let escape: String = escape.chars().rev().collect();
        let message = format!("`{escape}` is not an escape inside \"…\"");
        return Some((message, "write two backslashes for one, or use forward slashes".to_owned()));
    }
    if printed.starts_with("key must be a string")
        && line.get(error.column().checked_sub(1)?..)?.starts_with('\'')
    {
        return Some(("text in single quotes".to_owned(), "write it in double quotes".to_owned()));
    }
    let before = line.get(..error.column())?;
    let value = line.get(before.rfind([':', '[', ',', ' '])? + 1..)?.trim_start();
    let word = value.split([',', '}', ']', ' ']).next().unwrap_or_default();
    let is_word = word.starts_with(|first: char| first.is_alphabetic() || "./~@$'".contains(first));
    (is_word && !word.contains('"')).then(|| {
        let word = word.trim_matches('\'');
        ("text must be in double quotes".to_owned(), format!("write \"{word}\""))
    })
}

fn not_an_object(file: &File, at: usize, found: &Value) -> Problem {
    let place = Place::find(&file.path, &file.text, at);
    problem(place, format!("expected an object, found {}", found.kind()), crate::mcp_servers::EXAMPLE)
}

fn problem(place: Place, message: String, help: &str) -> Problem {
    Problem { place: Some(place), ..Problem::error("", message, help) }
}

/// The value at `start` of a text that is known to be valid; `offset` is the length of what precedes the text.
fn node(text: &[u8], start: usize, offset: usize) -> Node {
    let (rest, at) = (&text[start..], offset + start);
    let value = match rest.first() {
        Some(b'{') => Value::Table(table(rest, at)),
        Some(b'[') => Value::List(elements(rest).map(|range| node(rest, range.start, at)).collect()),
        Some(b't') => Value::Flag(true),
        Some(b'f') => Value::Flag(false),
        Some(b'n') => Value::Other("null"),
        Some(b'"') => Value::Text(first(rest).unwrap_or_default()),
        _ => number(rest),
    };
    Node { at, value }
}

fn number(text: &[u8]) -> Value {
    let fraction = || first(text).map_or(Value::Other("a number that is too large"), Value::Fraction);
    first(text).map_or_else(fraction, Value::Integer)
}

fn table(object: &[u8], at: usize) -> Vec<Entry> {
    members(object)
        .map(|member| Entry {
            key: first(&object[member.key.at.start..]).unwrap_or_default(),
            at: at + member.key.at.start,
            node: node(object, member.value.start, at),
        })
        .collect()
}

/// The value that a text starts with; the rest of the text is ignored.
fn first<T: serde::de::DeserializeOwned>(text: &[u8]) -> Option<T> {
    serde_json::Deserializer::from_slice(text).into_iter().next()?.ok()
}
