//! What is wrong with a config: position, key, what was expected, what to do.
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

/// Where in which file, counted from one; columns count characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    pub file: String,
    pub line: usize,
    pub column: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub level: Level,
    /// Nothing where no file is to blame, for instance for a flag.
    pub place: Option<Place>,
    /// The key (`upstreams.files.command`) or the flag; empty for the file as a whole.
    pub key: String,
    pub message: String,
    pub help: String,
}

impl Problem {
    /// Something that is no matter of a place in a file.
    pub fn error(key: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { level: Level::Error, place: None, key: key.into(), message: message.into(), help: help.into() }
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
        Self { file: file.display().to_string(), line, column }
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
        let check = |text: &str, at: usize, expected: (usize, usize)| {
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
