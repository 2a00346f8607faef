//! Text of others made safe to show. Control characters can clear a screen, move the cursor, write to a clipboard
//! or forge a line of a log, and bidirectional marks can reorder a line: all of them are shown as escapes.

use std::borrow::Cow;

/// The text on one line: line ends are escaped, too.
pub fn line(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_unsafe) { Cow::Owned(escape(text, is_unsafe)) } else { Cow::Borrowed(text) }
}

/// Text of several lines: line ends and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe_in_lines) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(escape(&text.replace("\r\n", "\n"), is_unsafe_in_lines))
}

/// JSON text, in which a serializer has left only the rarer ones as they are. It stays the same JSON.
pub fn json(text: &str) -> Cow<'_, str> {
    let is_left = |c: char| !c.is_ascii() && is_unsafe(c) || c == '\u{7f}';
    if !text.chars().any(is_left) {
        return Cow::Borrowed(text);
    }
    let written = |c: char| if is_left(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(text.chars().map(written).collect())
}

fn is_unsafe(c: char) -> bool {
    let is_mark = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_mark
}

fn is_unsafe_in_lines(c: char) -> bool {
    !matches!(c, '\n' | '\t') && is_unsafe(c)
}

fn escape(text: &str, is_unsafe: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(line("plain é 漢"), "plain é 漢");
        assert_eq!(line("a\x1b[2Jb\rc\nd\te\u{9b}f\u{202e}g"), r"a\u{1b}[2Jb\rc\nd\te\u{9b}f\u{202e}g");
        assert_eq!(lines("a\r\nb\tc\x07\rd"), "a\nb\tc\\u{7}\\rd");
        assert_eq!(json("\"a\u{9b}\u{7f}é\""), "\"a\\u009b\\u007fé\"");
    }
}
