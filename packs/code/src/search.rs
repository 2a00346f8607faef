//! Search without an index: by regular expression, by file name, by syntax.

pub mod ast;
pub mod glob;
pub mod grep;
pub mod route;

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

/// Something found in a file.
#[derive(Clone, Debug, Serialize, JsonSchema, PartialEq, Eq)]
pub struct Match {
    /// Relative to the project's root.
    pub file: String,
    /// The line of the first character, counted from 1.
    pub line: usize,
    /// Its column in characters, counted from 1.
    pub column: usize,
    /// The last line.
    pub end_line: usize,
    /// The text that was found, or the line it is in.
    pub text: String,
}

/// What a search found.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Matches {
    /// The project's root.
    pub project: String,
    pub matches: Vec<Match>,
    /// How many there are in all; more than are listed if the limit was reached.
    pub total: usize,
    /// How many files were searched.
    pub files: usize,
}

impl Matches {
    /// Readable text: `file:line:column: text` per match.
    pub fn to_text(&self) -> String {
        if self.matches.is_empty() {
            return format!("Nothing found in {} files.", self.files);
        }
        let mut out = String::new();
        for found in &self.matches {
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
        if self.total > self.matches.len() {
            let _ = writeln!(
                out,
                "… {} of {} matches; raise `limit` to see more",
                self.matches.len(),
                self.total
            );
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
