//! TOML into a tree. The parser keeps tables sorted by key; the order of the file is brought back here.

use toml::de::{DeTable, DeValue};

use super::{Entry, File, Node, Value};
use crate::problem::{Place, Problem};

pub(crate) fn parse(file: &File) -> Result<Vec<Entry>, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    if errors.is_empty() {
        return Ok(entries(table.into_inner()));
    }
    let mut problems: Vec<Problem> = errors.iter().map(|error| problem(file, error)).collect();
    // One slip makes several errors in its line.
    problems.dedup_by(|a, b| {
        let line = |problem: &Problem| problem.place.as_ref().map(|place| place.line);
        a.message == b.message && line(a) == line(b)
    });
    Err(problems)
}

fn problem(file: &File, error: &toml::de::Error) -> Problem {
    let span = error.span().unwrap_or_default();
    let (message, help) = match error.message() {
        "duplicate key" => {
            let key = file.text.get(span.clone()).unwrap_or_default();
            (format!("duplicate `{key}`"), "keep one of the two, or give one another name")
        }
        message => match slip(file, span.start) {
            Some((message, help)) => return problem_at(file, span.start, message, help),
            None => (format!("not valid TOML: {message}"), "see https://toml.io for how TOML is written"),
        },
    };
    problem_at(file, span.start, message, help.to_owned())
}

fn problem_at(file: &File, at: usize, message: String, help: String) -> Problem {
    Problem { place: Some(Place::find(&file.path, &file.text, at)), ..Problem::error("", message, help) }
}

/// Recognises a frequent mistake in the line of an error; returns the message and the correct form.
fn slip(file: &File, at: usize) -> Option<(String, String)> {
    let start = file.text.get(..at)?.rfind('\n').map_or(0, |at| at + 1);
    let line = file.text[start..].lines().next()?;
    let (key, value) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()))?;
    let first = value.chars().next()?;
    if let Some(inside) = value.strip_prefix('"') {
        let inside = inside.split('"').next().unwrap_or_default();
        let escape: String = inside[inside.find('\\')?..].chars().take(2).collect();
        let is_valid = escape.ends_with(['\\', 'b', 't', 'n', 'f', 'r', 'e', '"']);
        let is_drive = inside.get(1..3) == Some(":\\");
        let is_path = is_drive || !is_valid;
        return is_path.then(|| {
            let message = format!("`{escape}` is an escape inside \"…\"");
            (message, format!("write it in single quotes: {key} = '{inside}'"))
        });
    }
    let is_word = first.is_alphabetic() || "./~@$".contains(first);
    let word = value.split(" #").next().unwrap_or_default().trim_end();
    (is_word && !word.contains(['"', '\'']))
        .then(|| ("text must be in quotes".to_owned(), format!("write {key} = \"{word}\"")))
}

fn entries(table: DeTable<'_>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = table
        .into_iter()
        .map(|(key, value)| {
            let (at, starts) = (key.span().start, value.span().start);
            Entry { key: key.into_inner().into_owned(), at, node: node(starts, value.into_inner()) }
        })
        .collect();
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn node(at: usize, value: DeValue<'_>) -> Node {
    let value = match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or(Value::Other("a number that is too large"), Value::Integer),
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok().filter(|number: &f64| number.is_finite());
            number.map_or(Value::Other("a number that is not finite"), Value::Fraction)
        }
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => {
            Value::List(items.into_iter().map(|item| node(item.span().start, item.into_inner())).collect())
        }
        DeValue::Table(table) => Value::Table(entries(table)),
    };
    Node { at, value }
}
