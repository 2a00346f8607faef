//! One pass over JSON: whether it is valid, and the positions of its parts.
//!
//! It is as strict as `serde_json`, except that it gives up where it may be too strict: the caller then uses
//! `serde_json`, which either reads the text after all or reports what is wrong with it.

use memchr::memchr;

use crate::splice::{Key, closing_quote};

/// Deeper than this the pass gives up, since it calls itself.
const DEEPEST: usize = 128;

/// A place in text that is known to be UTF-8.
pub(crate) struct Scan<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Few texts have control characters, which strings must not hold, so that few strings are searched for them.
    has_controls: bool,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let has_controls = text.bytes().fold(u8::MAX, u8::min) < b' ';
        Self { text, at: 0, depth: 0, has_controls }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Whether a key of the text is `name`.
    pub(crate) fn key_equals(&self, key: &Key, name: &str) -> bool {
        key.equals(self.text.as_bytes(), name)
    }

    /// The byte that comes next; 0, which is not part of JSON, at the end.
    #[inline]
    pub(crate) fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Whether nothing but space is left.
    pub(crate) fn is_done(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    #[inline]
    pub(crate) fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// Skips the value at this position.
    pub(crate) fn value(&mut self) -> Option<&'a str> {
        let start = self.at;
        match self.peek() {
            b'"' => {
                self.string()?;
            }
            b'{' => self.object(|scan, _| scan.value().map(drop))?,
            b'[' => self.array()?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => self.number()?,
        }
        Some(&self.text[start..self.at])
    }

    /// Skips the string at this position; `None` if it contains escapes.
    pub(crate) fn plain_string(&mut self) -> Option<&'a str> {
        (self.peek() == b'"').then_some(())?;
        let plain = self.string()?.plain()?;
        Some(&self.text[plain])
    }

    /// Skips the object at this position; `member` receives each key and skips its value.
    pub(crate) fn object(&mut self, mut member: impl FnMut(&mut Self, Key) -> Option<()>) -> Option<()> {
        self.go_in(b'{')?;
        if self.peek() == b'}' {
            return self.go_out();
        }
        loop {
            (self.peek() == b'"').then_some(())?;
            let key = self.string()?;
            self.skip_space();
            (self.peek() == b':').then_some(())?;
            self.at += 1;
            self.skip_space();
            member(self, key)?;
            self.skip_space();
            match self.peek() {
                b',' => self.at += 1,
                b'}' => return self.go_out(),
                _ => return None,
            }
            self.skip_space();
        }
    }

    fn array(&mut self) -> Option<()> {
        self.go_in(b'[')?;
        if self.peek() == b']' {
            return self.go_out();
        }
        loop {
            self.value()?;
            self.skip_space();
            match self.peek() {
                b',' => self.at += 1,
                b']' => return self.go_out(),
                _ => return None,
            }
            self.skip_space();
        }
    }

    fn go_in(&mut self, opening: u8) -> Option<()> {
        (self.peek() == opening && self.depth < DEEPEST).then_some(())?;
        self.at += 1;
        self.depth += 1;
        self.skip_space();
        Some(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is the last word of a pass that went well")]
    fn go_out(&mut self) -> Option<()> {
        self.at += 1;
        self.depth -= 1;
        Some(())
    }

    #[inline]
    fn string(&mut self) -> Option<Key> {
        let (end, is_escaped) = closing_quote(self.text.as_bytes(), self.at)?;
        let string = Key::new(self.at..end, is_escaped);
        let inside = &self.text.as_bytes()[self.at + 1..end - 1];
        self.at = end;
        let has_controls = self.has_controls && inside.iter().any(|byte| *byte < b' ');
        let is_good = !has_controls && (!is_escaped || has_good_escapes(inside));
        is_good.then_some(string)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text.as_bytes()[self.at..].starts_with(word.as_bytes()).then_some(())?;
        self.at += word.len();
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == b'-' {
            self.at += 1;
        }
        match self.peek() {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// At least one.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
}

fn has_good_escapes(inside: &[u8]) -> bool {
    let mut rest = inside;
    while let Some(at) = memchr(b'\\', rest) {
        rest = match &rest[at + 1..] {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => rest,
            [b'u', hex @ ..] if hex.len() >= 4 && hex[..4].iter().all(u8::is_ascii_hexdigit) => &hex[4..],
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests;
