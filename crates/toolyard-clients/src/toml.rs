//! Puts an entry into a TOML file and takes it out again, as a section of its own. Everything else stays byte for
//! byte; an editor for TOML would change line ends and lose a byte order mark, so it is asked only where things
//! stand.

#[cfg(test)]
mod tests;

use std::ops::Range;

use toml_edit::{Array, Document, Item, Table, Value};

use super::entry::Entry;

/// Returns the text with the section added at the end. If the last line of the file has no line break, it still has
/// none.
pub(crate) fn with(text: &str, section: &str, name: &str, entry: &Entry) -> String {
    let line = line(text);
    let table = table(text, section, name, entry);
    match text {
        "" => format!("{table}{line}"),
        text if text.ends_with('\n') => format!("{text}{line}{table}{line}"),
        text => format!("{text}{line}{line}{table}"),
    }
}

/// Returns the text with the section in place of the present one of its name; `None` if that is not a section.
pub(crate) fn with_replaced(text: &str, section: &str, name: &str, entry: &Entry) -> Option<String> {
    let at = span(text, section, name)?;
    Some(format!("{}{}{}", &text[..at.start], table(text, section, name, entry), &text[at.end..]))
}

/// Without the section, and the empty line before it; nothing where it is not a section.
pub(crate) fn without(text: &str, section: &str, name: &str) -> Option<String> {
    let at = span(text, section, name)?;
    let (before, after) = (&text[..at.start], &text[at.end..]);
    let (before, after) = match after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')) {
        Some(rest) => (if is_blank(before) { without_line(before) } else { before }, rest),
        // The last line of the file, which had no end before, too.
        None => (without_line(without_line(before)), after),
    };
    Some(format!("{before}{after}"))
}

fn table(text: &str, section: &str, name: &str, entry: &Entry) -> String {
    let line = line(text);
    let command = Value::from(entry.command.as_str());
    let args: Array = entry.args.iter().map(String::as_str).collect();
    format!("[{section}.{name}]{line}command = {command}{line}args = {args}")
}

/// The range of a section, from its header to the end of its last value, including the sections below it.
fn span(text: &str, section: &str, name: &str) -> Option<Range<usize>> {
    let document = Document::parse(text).ok()?;
    let table = document.get(section)?.get(name)?.as_table()?;
    let header = table.span()?;
    let end = last(table)?.max(header.end);
    let rest_of_line = text[end..].find(['\n', '\r']).unwrap_or(text.len() - end);
    // Everything in between must belong to it.
    let is_its_own = headers(document.as_table()).into_iter().filter(|at| (header.start..end).contains(at));
    let own = headers(table).len() + 1;
    (is_its_own.count() == own).then_some(header.start..end + rest_of_line)
}

fn last(table: &Table) -> Option<usize> {
    let ends = table.iter().map(|(_, item)| match item {
        Item::Table(inner) => last(inner),
        other => other.span().map(|span| span.end),
    });
    ends.chain([table.span().map(|span| span.end)]).flatten().max()
}

/// The starts of the sections below a table.
fn headers(table: &Table) -> Vec<usize> {
    let mut found = Vec::new();
    for (_, item) in table {
        let inner: Vec<&Table> = match item {
            Item::Table(inner) => vec![inner],
            Item::ArrayOfTables(many) => many.iter().collect(),
            _ => Vec::new(),
        };
        for inner in inner {
            found.extend(
                inner.span().filter(|_| !inner.is_implicit() && !inner.is_dotted()).map(|span| span.start),
            );
            found.extend(headers(inner));
        }
    }
    found
}

fn line(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Whether a text ends with an empty line.
fn is_blank(text: &str) -> bool {
    let before = without_line(text);
    before.len() < text.len() && (before.ends_with('\n') || before.is_empty())
}

fn without_line(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}
