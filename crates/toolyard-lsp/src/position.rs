//! Positions: servers count in UTF-8 bytes, UTF-16 units or characters; we count characters.

use serde_json::{Value, json};

/// The unit in which a server counts columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Utf16,
    Utf32,
}

/// A place in a text as a server gives it: line and column from 0, the column in the server's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub character: usize,
}

/// A range: from a position up to, but not including, another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub start: Position,
    pub end: Position,
}

impl Encoding {
    /// The encoding that a server chose. Without a choice it is UTF-16.
    pub(crate) fn of(capabilities: &Value) -> Self {
        match capabilities["positionEncoding"].as_str() {
            Some("utf-8") => Self::Utf8,
            Some("utf-32") => Self::Utf32,
            _ => Self::Utf16,
        }
    }

    fn width(self, c: char) -> usize {
        match self {
            Self::Utf8 => c.len_utf8(),
            Self::Utf16 => c.len_utf16(),
            Self::Utf32 => 1,
        }
    }

    /// A column in characters as a column of this encoding.
    pub fn encode(self, line: &str, column: usize) -> usize {
        line.chars().take(column).map(|c| self.width(c)).sum()
    }

    /// A column of this encoding as a column in characters. A column within a character is its start.
    pub fn decode(self, line: &str, column: usize) -> usize {
        self.walk(line, column).0
    }

    /// A column of this encoding as a byte of the line.
    fn byte(self, line: &str, column: usize) -> usize {
        self.walk(line, column).1
    }

    fn walk(self, line: &str, column: usize) -> (usize, usize) {
        let mut units = 0;
        for (count, (byte, c)) in line.char_indices().enumerate() {
            let next = units + self.width(c);
            if next > column {
                return (count, byte);
            }
            units = next;
        }
        (line.chars().count(), line.len())
    }
}

impl Position {
    pub fn read(value: &Value) -> Option<Self> {
        let number = |key: &str| usize::try_from(value[key].as_u64()?).ok();
        Some(Self { line: number("line")?, character: number("character")? })
    }

    pub fn to_json(self) -> Value {
        json!({ "line": self.line, "character": self.character })
    }
}

impl Range {
    pub fn read(value: &Value) -> Option<Self> {
        Some(Self { start: Position::read(&value["start"])?, end: Position::read(&value["end"])? })
    }

    pub fn to_json(self) -> Value {
        json!({ "start": self.start.to_json(), "end": self.end.to_json() })
    }

    /// Whether a position is within the range or at one of its ends.
    pub fn touches(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// A text by lines, which end with `\n`, `\r\n` or `\r`.
#[derive(Debug)]
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let ends = (0..bytes.len())
            .filter(|at| bytes[*at] == b'\n' || (bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n')));
        let starts = std::iter::once(0).chain(ends.map(|at| at + 1)).collect();
        Self { text, starts }
    }

    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// A line without its end; empty past the end of the text.
    pub fn line(&self, number: usize) -> &'a str {
        let Some(start) = self.starts.get(number) else { return "" };
        let end = self.starts.get(number + 1).copied().unwrap_or(self.text.len());
        self.text[*start..end].trim_end_matches(['\r', '\n'])
    }

    /// The byte of a position. Positions past the end of a line or of the text mean that end.
    pub fn byte(&self, position: Position, encoding: Encoding) -> usize {
        match self.starts.get(position.line) {
            Some(start) => start + encoding.byte(self.line(position.line), position.character),
            None => self.text.len(),
        }
    }

    /// Line and column from 1, the column in characters.
    pub fn readable(&self, position: Position, encoding: Encoding) -> (usize, usize) {
        (position.line + 1, encoding.decode(self.line(position.line), position.character) + 1)
    }

    /// A line from 1 and a column from 0 in characters, as a position for the server.
    pub fn position(&self, line: usize, column: usize, encoding: Encoding) -> Position {
        let line = line.saturating_sub(1);
        Position { line, character: encoding.encode(self.line(line), column) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_after_an_emoji_differ_by_encoding() {
        let line = "let 🦀é = x;";
        for (encoding, units) in [(Encoding::Utf8, 11), (Encoding::Utf16, 8), (Encoding::Utf32, 7)] {
            assert_eq!(encoding.encode(line, 7), units, "{encoding:?}");
            assert_eq!(encoding.decode(line, units), 7, "{encoding:?}");
        }
        assert_eq!(Encoding::Utf16.decode(line, 5), 4, "within the emoji");
        assert_eq!(Encoding::Utf8.decode(line, 99), line.chars().count());
    }

    #[test]
    fn lines_end_in_three_ways() {
        let lines = Lines::new("a\r\nb\rc\n");
        let all: Vec<&str> = (0..lines.count()).map(|number| lines.line(number)).collect();
        assert_eq!(all, ["a", "b", "c", ""]);
        assert_eq!(lines.byte(Position { line: 1, character: 1 }, Encoding::Utf8), 4);
        assert_eq!(lines.byte(Position { line: 9, character: 0 }, Encoding::Utf8), 7);
    }

    proptest! {
        #[test]
        fn a_column_survives_every_encoding(line in "[^\r\n]{0,20}", column in 0_usize..25) {
            let column = column.min(line.chars().count());
            for encoding in [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32] {
                prop_assert_eq!(encoding.decode(&line, encoding.encode(&line, column)), column);
            }
        }
    }
}
