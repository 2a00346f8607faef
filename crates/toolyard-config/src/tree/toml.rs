//! TOML into a tree. The parser keeps tables sorted by key; the order of the file is brought back here.

use toml::de::{DeTable, DeValue};

use super::{Entry, File, Node, Value};
use crate::problem::{Level, Place, Problem};

pub(crate) fn parse(file: &File) -> Result<Vec<Entry>, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    if errors.is_empty() {
        return Ok(entries(table.into_inner()));
    }
    Err(errors.iter().map(|error| problem(file, error)).collect())
}

fn problem(file: &File, error: &toml::de::Error) -> Problem {
    let span = error.span().unwrap_or_default();
    let (message, help) = match error.message() {
        "duplicate key" => {
            let key = file.text.get(span.clone()).unwrap_or_default();
            (format!("`{key}` is there twice"), "keep one of the two, or give one another name")
        }
        message => (format!("not valid TOML: {message}"), "see https://toml.io for how TOML is written"),
    };
    Problem {
        level: Level::Error,
        place: Some(Place::find(&file.path, &file.text, span.start)),
        key: String::new(),
        message,
        help: help.into(),
    }
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
