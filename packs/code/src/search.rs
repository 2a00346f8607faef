//! Search without an index: by regular expression, by file name, by syntax.

pub(crate) mod ast;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod route;

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
    /// Readable text: `file:line:column: text` per match.
    pub(crate) fn to_text(&self) -> String {
        if self.list.is_empty() {
            return format!("Nothing found in {} files.", self.files);
        }
        let mut out = String::new();
        for found in &self.list {
            let first = found.text.lines().next().unwrap_or_default();
            let _ = writeln!(
                out,
                "{}:{}:{}: {}",
                found.file,
                found.line,
                found.column,
                shorten(first.trim_end(), 200)
            );
        }
        if self.total > self.list.len() {
            let _ =
                writeln!(out, "… {} of {} matches; raise `limit` to see more", self.list.len(), self.total);
        }
        out
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
