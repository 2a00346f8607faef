//! Search without an index: by regular expression, by file name, by syntax.

pub(crate) mod ast;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod route;
pub(crate) mod terms;

use std::collections::HashMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

/// Something found in a file.
#[derive(Clone, Debug, Serialize, JsonSchema, PartialEq, Eq)]
pub(crate) struct Match {
    /// Relative to the project's root.
    pub(crate) file: String,
    /// The line of the first character, counted from 1.
    pub(crate) line: usize,
    /// Its column in characters, counted from 1.
    pub(crate) column: usize,
    /// The last line.
    pub(crate) end_line: usize,
    /// The text that was found, or the line it is in.
    pub(crate) text: String,
    /// The lines before it, if context was asked for. A line between two matches is listed once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) before: Vec<String>,
    /// The lines after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) after: Vec<String>,
}

/// What a search found.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Matches {
    /// The project's root.
    pub(crate) project: String,
    #[serde(rename = "matches")]
    pub(crate) list: Vec<Match>,
    /// How many there are in all; more than are listed if the limit was reached.
    pub(crate) total: usize,
    /// How many files were searched.
    pub(crate) files: usize,
}

impl Matches {
    /// The lines of the matches by file.
    pub(crate) fn lines(&self) -> HashMap<&str, Vec<usize>> {
        let mut lines: HashMap<&str, Vec<usize>> = HashMap::new();
        for found in &self.list {
            lines.entry(&found.file).or_default().push(found.line);
        }
        lines
    }

    /// Readable text: `file:line:column: text` per match, and `file-line- text` for the lines around it.
    pub(crate) fn to_text(&self) -> String {
        if self.list.is_empty() {
            return format!("Nothing found in {} files.", self.files);
        }
        let mut out = String::new();
        let has_context = self.list.iter().any(|found| !found.before.is_empty() || !found.after.is_empty());
        let mut last: Option<(&str, usize)> = None;
        for found in &self.list {
            let begin = found.line - found.before.len();
            if has_context && last.is_some_and(|last| last != (&found.file, begin)) {
                out.push_str("--\n");
            }
            last = Some((&found.file, found.end_line + found.after.len() + 1));
            write_context(&mut out, &found.file, begin, &found.before);
            let first = found.text.lines().next().unwrap_or_default();
            let _ = writeln!(
                out,
                "{}:{}:{}: {}",
                found.file,
                found.line,
                found.column,
                shorten(first.trim_end(), 200)
            );
            write_context(&mut out, &found.file, found.end_line + 1, &found.after);
        }
        if self.total > self.list.len() {
            let _ =
                writeln!(out, "… {} of {} matches; raise `limit` to see more", self.list.len(), self.total);
        }
        out
    }
}

fn write_context(out: &mut String, file: &str, first: usize, lines: &[String]) {
    for (number, line) in (first..).zip(lines) {
        let _ = writeln!(out, "{file}-{number}- {}", shorten(line.trim_end(), 200));
    }
}

/// At most `most` characters of a text.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The column of a byte in its line, in characters, from 1.
pub(crate) fn column(line: &str, byte: usize) -> usize {
    line.get(..byte).map_or(byte, |before| before.chars().count()) + 1
}
