//! Reads the YAML config of Goose, puts an entry into it and takes it out again. Everything else stays byte for byte,
//! so the text is changed line by line; a file that is not written in block style is left alone.

use std::ops::Range;

use serde_json::{Map, Value as Json};
use toolyard_config::{Entry as Key, Node, Value};

use super::entry::Entry;

/// The indentation of entries where there are none yet.
const INDENT: usize = 2;

/// The content of a file; an empty one has no keys.
pub(crate) fn value(text: &str) -> Option<Map<String, Json>> {
    match yaml_serde::from_str(text).ok()? {
        Json::Object(root) => Some(root),
        Json::Null => Some(Map::new()),
        _ => None,
    }
}

/// The keys at the top level and the entries of each section, with their positions.
pub(crate) fn keys(text: &str) -> Result<Vec<Key>, String> {
    let root: Json = yaml_serde::from_str(text).map_err(|error| error.to_string())?;
    let root = match root {
        Json::Object(root) => root,
        Json::Null => Map::new(),
        _ => return Err("expected keys and values".to_owned()),
    };
    let top = |(key, value): (String, Json)| {
        let section = section(text, &key);
        let at = section.as_ref().map_or(0, |section| section.head.start);
        let place = |name: &str| {
            section.as_ref().and_then(|section| section.find(text, name)).map_or(at, |at| at.start)
        };
        Key { node: Node { at, value: read(value, at, &place) }, key, at }
    };
    Ok(root.into_iter().map(top).collect())
}

fn read(value: Json, at: usize, place: &dyn Fn(&str) -> usize) -> Value {
    match value {
        Json::String(text) => Value::Text(text),
        Json::Bool(flag) => Value::Flag(flag),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Integer(number),
            (None, Some(number)) => Value::Fraction(number),
            (None, None) => Value::Other("a number"),
        },
        Json::Array(items) => {
            Value::List(items.into_iter().map(|item| Node { at, value: read(item, at, &|_| at) }).collect())
        }
        Json::Object(keys) => {
            let key = |(key, value): (String, Json)| {
                let at = place(&key);
                Key { node: Node { at, value: read(value, at, &|_| at) }, key, at }
            };
            Value::Table(keys.into_iter().map(key).collect())
        }
        Json::Null => Value::Other("nothing"),
    }
}

/// Returns the text with the entry as the first of its section; `None` if the section is not in block style.
pub(crate) fn with(text: &str, section: &str, name: &str, entry: &Entry) -> Option<String> {
    let line = line(text);
    if let Some(own) = self::section(text, section) {
        let indent = own.indent(text)?;
        let at = own.head.end;
        return Some(format!("{}{}{}", &text[..at], block(name, entry, indent, line), &text[at..]));
    }
    if value(text)?.contains_key(section) {
        return None;
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { line };
    Some(format!("{text}{end}{section}:{line}{}", block(name, entry, INDENT, line)))
}

/// Returns the text with the entry in place of the present one of its name.
pub(crate) fn with_replaced(text: &str, section: &str, name: &str, entry: &Entry) -> Option<String> {
    let own = self::section(text, section)?;
    let at = own.find(text, name)?;
    let block = block(name, entry, own.indent(text)?, line(text));
    Some(format!("{}{block}{}", &text[..at.start], &text[at.end..]))
}

/// Without the entry, and without the section if it was its only one.
pub(crate) fn without(text: &str, section: &str, name: &str) -> Option<String> {
    let own = self::section(text, section)?;
    let at = own.find(text, name)?;
    let is_only = (own.head.end..own.end) == at;
    let start = if is_only { own.head.start } else { at.start };
    Some(format!("{}{}", &text[..start], &text[at.end..]))
}

/// A key at the top whose value is a block below it.
struct Section {
    /// Its own line, with the line end.
    head: Range<usize>,
    /// Where the block ends.
    end: usize,
}

impl Section {
    /// How far its entries are indented.
    fn indent(&self, text: &str) -> Option<usize> {
        let first = lines(text, self.head.end..self.end).find(|line| !is_empty(&text[line.clone()]));
        first.map_or(Some(INDENT), |line| Some(indent_of(&text[line])).filter(|indent| *indent > 0))
    }

    /// The lines of an entry.
    fn find(&self, text: &str, name: &str) -> Option<Range<usize>> {
        let indent = self.indent(text)?;
        let mut rest = lines(text, self.head.end..self.end).skip_while(|line| {
            indent_of(&text[line.clone()]) != indent || !is_key(&text[line.clone()], name)
        });
        let head = rest.next()?;
        // Comments and empty lines before the next entry are not part of this one.
        let inner = rest.take_while(|line| {
            let line = &text[line.clone()];
            is_empty(line) || indent_of(line) > indent
        });
        let end =
            inner.filter(|line| !is_empty(&text[line.clone()])).last().map_or(head.end, |line| line.end);
        Some(head.start..end)
    }
}

fn section(text: &str, name: &str) -> Option<Section> {
    let is_head = |line: &Range<usize>| {
        let line = &text[line.clone()];
        let rest = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
        rest.is_some_and(|rest| is_empty(rest) && rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let head = lines(text, 0..text.len()).find(is_head)?;
    let inner = lines(text, head.end..text.len())
        .take_while(|line| is_empty(&text[line.clone()]) || indent_of(&text[line.clone()]) > 0);
    let end = inner.filter(|line| !is_empty(&text[line.clone()])).last().map_or(head.end, |line| line.end);
    Some(Section { head, end })
}

/// The lines in this part of a text, with their ends.
fn lines(text: &str, within: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = within.start;
    text[within].split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        start..at
    })
}

/// Whether a line has nothing but a comment.
fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_key(line: &str, name: &str) -> bool {
    let line = line.trim();
    [name.to_owned(), format!("\"{name}\""), format!("'{name}'")].iter().any(|key| {
        line.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix(':')).is_some_and(is_empty)
    })
}

/// An entry as lines. Every value is written as JSON, which YAML includes.
fn block(name: &str, entry: &Entry, indent: usize, line: &str) -> String {
    let inner = indent + INDENT;
    let field = |(key, value): (&str, Json)| format!("{:inner$}{key}: {value}{line}", "");
    let fields: String = entry.fields_named(name).into_iter().map(field).collect();
    format!("{:indent$}{name}:{line}{fields}", "")
}

fn line(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    fn entry() -> Entry {
        Entry { client: Some(Client::Goose), ..Entry::example() }
    }

    #[test]
    fn an_entry_is_put_in_and_taken_out_and_the_rest_stays_byte_for_byte() {
        for text in [
            "",
            "GOOSE_MODEL: x\n",
            "a: 1\r\nextensions:\r\n    dev:\r\n        enabled: true\r\n",
            "extensions:\n  dev:\n    enabled: true # on\n    args:\n    - x\n\n# after\nother: 1\n",
            "extensions: # all of them\n  # the first\n  dev:\n    type: builtin\n",
            "extensions:\n  dev:\n    type: builtin",
        ] {
            let with = with(text, "extensions", "toolyard", &entry()).unwrap();
            let root = value(&with).unwrap();
            assert_eq!(root["extensions"]["toolyard"], entry().value_named("toolyard"), "{with}");
            assert_eq!(without(&with, "extensions", "toolyard").as_deref(), Some(text), "{with}");
            let again = with_replaced(&with, "extensions", "toolyard", &entry());
            assert_eq!(again.as_deref(), Some(&*with));
        }
    }

    #[test]
    fn a_section_in_another_style_is_left_alone() {
        for text in ["extensions: {}\n", "extensions: { dev: { enabled: true } }\n", "[1]\n", "a: [\n"] {
            assert_eq!(with(text, "extensions", "toolyard", &entry()), None, "{text}");
        }
    }
}
