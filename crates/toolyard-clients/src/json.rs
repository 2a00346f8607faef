//! Puts an entry into a JSON file that people and editors wrote, and takes it out again. Everything else stays
//! byte for byte: comments, order, indentation, line ends, trailing commas, a byte order mark.
//!
//! An entry must be removable without a trace, so it is inserted in a form from which the removal can be derived: an
//! existing section `{}` gets its entry on one line, a missing section is written over several lines. Braces with
//! only white space between them, which are rare, get the entry without white space.

mod object;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde_json::Value;
use toolyard_config::jsonc;

use self::object::{Member, Object};
use super::entry::Entry;

/// Changes that are made at once: each replaces a range by a text.
type Changes = Vec<(Range<usize>, String)>;

/// A file whose text is a valid object, comments and trailing commas aside.
pub(crate) struct Document<'a> {
    text: &'a str,
    /// The same without comments and trailing commas, and everything where it was.
    plain: String,
    root: Object,
}

/// The text between two values: how far comments and a comma reach.
struct Gap {
    comma: Option<usize>,
    tail: usize,
    has_comment: bool,
    /// Whether it ends with a comment that reaches to the end of its line.
    ends_in_line: bool,
}

/// How a value is written.
#[derive(Clone)]
enum Layout {
    Line,
    /// Over several lines, at this depth.
    Lines(String),
}

impl<'a> Document<'a> {
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let plain = jsonc::plain(text);
        let start = plain.len() - plain.trim_start_matches('\u{feff}').trim_start().len();
        let root = Object::at(&plain, start..plain.len())?;
        Some(Self { text, plain, root })
    }

    /// Returns the text with the entry added at the end of the section.
    pub(crate) fn with(&self, section: &str, name: &str, entry: &Entry) -> Option<String> {
        let Some((_, member)) = self.root.member(section) else {
            let layout = self.layout(&self.root);
            let value = |layout: &Layout| self.section(name, entry, layout);
            return Some(changed(self.text, self.inserted(&self.root, section, &layout, value)));
        };
        let object = Object::at(&self.plain, member.value.clone())?;
        let layout = if self.inside(&object).is_empty() { Layout::Line } else { self.layout(&object) };
        let value = |layout: &Layout| self.entry(entry, layout);
        Some(changed(self.text, self.inserted(&object, name, &layout, value)))
    }

    /// Returns the text with the entry in place of the present one of this name.
    pub(crate) fn with_replaced(&self, section: &str, name: &str, entry: &Entry) -> Option<String> {
        let object = Object::at(&self.plain, self.root.member(section)?.1.value.clone())?;
        let (_, member) = object.member(name)?;
        let layout = match self.own_indent(member.key.start) {
            Some(indent) => Layout::Lines(indent.to_owned()),
            None => Layout::Line,
        };
        Some(changed(self.text, vec![(member.value.clone(), self.entry(entry, &layout))]))
    }

    /// Without the entry; and without the section, where that was made for it.
    pub(crate) fn without(&self, section: &str, name: &str) -> Option<String> {
        let (at, member) = self.root.member(section)?;
        let object = Object::at(&self.plain, member.value.clone())?;
        let (index, entry) = object.member(name)?;
        let around =
            (&self.text[object.open + 1..entry.key.start], &self.text[entry.value.end..object.close]);
        let changes = match (object.members.len(), around) {
            (1, (" ", " ")) => vec![(object.open + 1..object.close, String::new())],
            (1, (before, after)) if is_line_end(before) && is_line_end(after) && self.is_bare(member) => {
                self.removed_section(at)
            }
            _ => self.removed(&object, index),
        };
        Some(changed(self.text, changes))
    }

    /// Whether there is no comment between a key and its value.
    fn is_bare(&self, member: &Member) -> bool {
        self.text[member.key.end..member.value.start].trim() == ":"
    }

    fn removed_section(&self, at: usize) -> Changes {
        let (root, section) = (&self.root, &self.root.members[at]);
        let around =
            (&self.text[root.open + 1..section.key.start], &self.text[section.value.end..root.close]);
        if root.members.len() == 1 && is_line_end(around.0) && is_line_end(around.1) {
            return vec![(root.open + 1..root.close, String::new())];
        }
        self.removed(root, at)
    }

    /// A member, the space before it, and the comma that it no longer needs.
    fn removed(&self, object: &Object, index: usize) -> Changes {
        let member = &object.members[index];
        let previous =
            index.checked_sub(1).map_or(object.open + 1, |before| object.members[before].value.end);
        let next = object.members.get(index + 1).map_or(object.close, |after| after.key.start);
        let before = self.gap(previous..member.key.start);
        let after = self.gap(member.value.end..next);
        let comma = after.comma.or(before.comma);
        let follows = &self.text[after.comma.map_or(member.value.end, |comma| comma + 1)..];
        let stays_apart = follows.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        // What follows must not become part of a comment.
        let start = if before.ends_in_line && !stays_apart { member.key.start } else { before.tail };
        let mut changes = vec![(start..member.value.end, String::new())];
        if let Some(comma) = comma {
            // The comma before may be what `tail` ends with, so it goes first.
            let first = usize::from(comma >= member.value.end);
            changes.insert(first, (comma..comma + 1, String::new()));
        }
        changes
    }

    /// A new last member.
    fn inserted(
        &self,
        object: &Object,
        name: &str,
        layout: &Layout,
        value: impl Fn(&Layout) -> String,
    ) -> Changes {
        let last = object.members.last().map_or(object.open + 1, |last| last.value.end);
        let gap = self.gap(last..object.close);
        let inside = self.inside(object);
        let is_bare = object.members.is_empty() && !inside.is_empty() && !gap.has_comment;
        let (before, after) = match layout {
            _ if is_bare => (String::new(), String::new()),
            Layout::Lines(indent) if inside.is_empty() => {
                (self.line(indent), self.line(self.indent_of_line(object.open)))
            }
            Layout::Lines(indent) => (self.line(indent), String::new()),
            Layout::Line if inside.is_empty() => (" ".to_owned(), " ".to_owned()),
            Layout::Line => (" ".to_owned(), String::new()),
        };
        let comma = if gap.comma.is_some() { "," } else { "" };
        let entry = format!("{before}{}: {}{comma}{after}", quoted(name), value(layout));
        let mut changes = vec![(gap.tail..gap.tail, entry)];
        if gap.comma.is_none() && !object.members.is_empty() {
            changes.insert(0, (last..last, ",".to_owned()));
        }
        changes
    }

    /// How a new member of an object is written.
    fn layout(&self, object: &Object) -> Layout {
        let is_on_one_line = !self.text[object.open..object.close].contains('\n');
        if is_on_one_line && object.close > object.open + 1 {
            return Layout::Line;
        }
        let beside = object.members.last().and_then(|last| self.own_indent(last.key.start));
        let below = || format!("{}{}", self.indent_of_line(object.open), self.unit());
        Layout::Lines(beside.map_or_else(below, str::to_owned))
    }

    /// A section with this one entry. It is always written over several lines.
    fn section(&self, name: &str, entry: &Entry, layout: &Layout) -> String {
        let outer = match layout {
            Layout::Lines(indent) => indent.as_str(),
            Layout::Line => self.indent_of_line(self.root.open),
        };
        let inner = format!("{outer}{}", self.unit());
        let value = self.entry(entry, &Layout::Lines(inner.clone()));
        format!("{{{}{}: {value}{}}}", self.line(&inner), quoted(name), self.line(outer))
    }

    fn entry(&self, entry: &Entry, layout: &Layout) -> String {
        let fields: Vec<String> =
            entry.fields().iter().map(|(key, value)| format!("{}: {}", quoted(key), shown(value))).collect();
        match layout {
            Layout::Line => format!("{{ {} }}", fields.join(", ")),
            Layout::Lines(outer) => {
                let start = self.line(&format!("{outer}{}", self.unit()));
                format!("{{{start}{}{}}}", fields.join(&format!(",{start}")), self.line(outer))
            }
        }
    }

    /// Finds the ends of the comments and of the comma in a range that has nothing else but white space.
    fn gap(&self, range: Range<usize>) -> Gap {
        let bytes = self.text.as_bytes();
        let mut gap = Gap { comma: None, tail: range.start, has_comment: false, ends_in_line: false };
        let mut at = range.start;
        while at < range.end {
            let rest = &self.text[at..range.end];
            let length = match bytes[at] {
                b'/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
                b'/' => rest.find('\n').map_or(rest, |end| &rest[..end]).trim_end_matches('\r').len(),
                b',' => 1,
                _ => 0,
            };
            match (length, bytes[at]) {
                (0, _) => at += 1,
                (_, b',') => {
                    gap.comma = Some(at);
                    at += 1;
                    gap.tail = at;
                    gap.ends_in_line = false;
                }
                _ => {
                    gap.has_comment = true;
                    gap.ends_in_line = rest.starts_with("//");
                    at += length;
                    gap.tail = at;
                }
            }
        }
        gap
    }

    fn inside(&self, object: &Object) -> &str {
        &self.text[object.open + 1..object.close]
    }

    /// The indentation of a line, if nothing but white space is before this position.
    fn own_indent(&self, at: usize) -> Option<&str> {
        let start = self.text[..at].rfind('\n')? + 1;
        Some(&self.text[start..at]).filter(|space| space.trim().is_empty())
    }

    /// The indentation of the line at this position.
    fn indent_of_line(&self, at: usize) -> &str {
        let start = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = &self.text[start..at];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// One step of indentation, as the file has it.
    fn unit(&self) -> &str {
        let outer = self.indent_of_line(self.root.open);
        let first = self.root.members.first().and_then(|first| self.own_indent(first.key.start));
        first.and_then(|first| first.strip_prefix(outer)).filter(|unit| !unit.is_empty()).unwrap_or("  ")
    }

    fn line(&self, indent: &str) -> String {
        format!("{}{indent}", if self.text.contains("\r\n") { "\r\n" } else { "\n" })
    }
}

fn changed(text: &str, changes: Changes) -> String {
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (range, new) in changes {
        out.push_str(&text[at..range.start.max(at)]);
        out.push_str(&new);
        at = range.end.max(at);
    }
    out + &text[at..]
}

/// Space with a line end in it.
fn is_line_end(text: &str) -> bool {
    text.contains('\n') && text.trim().is_empty()
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// On one line, with the spaces that people put there.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
