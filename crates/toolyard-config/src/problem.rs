//! A mistake in a config: position, key, what was expected, what to do.
//!
//! Problems are collected and reported together. They never quote the value of a key that may hold a secret.

use std::fmt;
use std::path::Path;

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Error,
    Warning,
    /// Nothing is wrong, but it may be unexpected.
    Note,
}

/// A position in a file, counted from one; columns count characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub level: Level,
    /// `None` if the problem is not in a file, for instance in a flag.
    pub place: Option<Place>,
    /// The key (`upstreams.files.command`) or the flag; empty for the file as a whole.
    pub key: String,
    pub message: String,
    pub help: String,
    /// The kind, where callers distinguish it; people read it in the message. Boxed, so that results stay small.
    #[serde(skip)]
    pub kind: Option<Box<ProblemKind>>,
}

/// The kinds of problems that callers treat differently. The message of each has the same in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// An environment variable has no value here. It may have one where the gateway runs.
    UnsetVariable,
    /// The key does not exist; these do.
    UnknownKey(Vec<&'static str>),
    /// The value is of the wrong kind, for instance a number instead of a string.
    WrongKind,
    /// The value is a string, but none of these.
    NotAChoice(Vec<String>),
}

impl Problem {
    /// Something that is not about a place in a file.
    pub fn error(key: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), help.into());
        Self { level: Level::Error, place: None, key: key.into(), message, help, kind: None }
    }

    /// Whether callers treat it as a problem of this kind.
    pub fn is(&self, kind: &ProblemKind) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    pub fn is_error(&self) -> bool {
        self.level == Level::Error
    }
}

impl Place {
    /// The line and column of the byte `at` of a text.
    pub fn find(file: &Path, text: &str, at: usize) -> Self {
        let before = &text[..text.floor_char_boundary(at)];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        Self::new(file, line, column)
    }

    pub(crate) fn new(file: &Path, line: usize, column: usize) -> Self {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { file: file.display().to_string(), line: number(line), column: number(column) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "note",
        };
        write!(f, "{level}: ")?;
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.message)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, "\n  help: {}", self.help) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let check = |text: &str, at: usize, expected: (u32, u32)| {
            let place = Place::find(Path::new("a"), text, at);
            assert_eq!((place.line, place.column), expected, "{text:?} at {at}");
        };
        check("", 0, (1, 1));
        check("a\nbc", 3, (2, 2));
        check("é = 1\n", 3, (1, 3));
        check("é", 1, (1, 1));
        check("a\n", 99, (2, 1));
    }
}
