//! A cursor over JSON text that is mostly passed over: it checks the grammar, builds nothing and copies nothing.
//!
//! `serde_json` would decode what is only carried, and does not report the position of a value in the text. Every method
//! returns `None` if the text is not JSON or is nested too deep; the cursor must not be used after that.

use std::borrow::Cow;
use std::iter;

use memchr::memchr2;

const MAX_DEPTH: usize = 128;
/// Represents any character that no URI scheme contains.
const FOREIGN: u8 = 0xFF;

#[derive(Clone)]
pub(super) struct Walker<'a> {
    json: &'a str,
    at: usize,
    depth: usize,
}

/// A JSON string as it was written, without its quotes.
#[derive(Clone, Copy)]
pub(super) struct JsonString<'a> {
    raw: &'a str,
    /// Its position in the whole text.
    pub(super) at: usize,
}

impl<'a> Walker<'a> {
    pub(super) fn new(json: &'a str) -> Self {
        Self { json, at: 0, depth: 0 }
    }

    /// The byte with which the next value starts.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.byte()
    }

    pub(super) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Walks an object; `value` is given each key and must walk over its value.
    pub(super) fn members(
        &mut self,
        mut value: impl FnMut(&mut Self, JsonString<'a>) -> Option<()>,
    ) -> Option<()> {
        self.list(b'{', b'}', |walker| {
            let key = walker.string()?;
            walker.expect(b':')?;
            value(walker, key)
        })
    }

    /// Walks an array; `item` must walk over one item.
    pub(super) fn items(&mut self, item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.list(b'[', b']', item)
    }

    pub(super) fn string(&mut self) -> Option<JsonString<'a>> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            let rest = self.rest();
            let (plain, stop) = rest.split_at(memchr2(b'"', b'\\', rest)?);
            if holds_control(plain) {
                return None;
            }
            self.at += plain.len();
            if stop.starts_with(b"\"") {
                break;
            }
            self.at += escape_len(stop)?;
        }
        let text = JsonString { raw: &self.json[start..self.at], at: start };
        self.at += 1;
        Some(text)
    }

    /// Walks over any value. Recursion is bounded by the depth that [`Self::list`] allows.
    pub(super) fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' => self.members(|walker, _| walker.skip()),
            b'[' => self.items(Self::skip),
            b'"' => self.string().map(drop),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn list(&mut self, open: u8, close: u8, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(open)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        if self.peek()? != close {
            element(self)?;
            while self.peek()? == b',' {
                self.at += 1;
                element(self)?;
            }
        }
        self.depth -= 1;
        self.expect(close)
    }

    fn literal(&mut self, word: &[u8]) -> Option<()> {
        self.rest().starts_with(word).then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<()> {
        self.accept(|byte| byte == b'-');
        if !self.accept(|byte| byte == b'0') {
            self.digits()?;
        }
        if self.accept(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.accept(|byte| matches!(byte, b'e' | b'E')) {
            self.accept(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_digit());
        (self.at > start).then_some(())
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        self.peek();
        self.accept(|byte| byte == wanted).then_some(())
    }

    fn accept(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let accepted = self.byte().is_some_and(wanted);
        self.at += usize::from(accepted);
        accepted
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.accept(&wanted) {}
    }

    fn byte(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        &self.json.as_bytes()[self.at..]
    }
}

impl<'a> JsonString<'a> {
    /// The text of the string. One that cannot be decoded (half a surrogate pair) is left as written: with its
    /// backslash it equals nothing that anyone looks for.
    pub(super) fn decoded(self) -> Cow<'a, str> {
        if !self.raw.contains('\\') {
            return Cow::Borrowed(self.raw);
        }
        serde_json::from_str(&format!("\"{}\"", self.raw)).map_or(Cow::Borrowed(self.raw), Cow::Owned)
    }

    /// The string byte by byte, each with the offset behind it as written. Escapes are decoded as far as a URI
    /// scheme can be written with them.
    pub(super) fn units(self) -> impl Iterator<Item = (u8, usize)> + use<'a> {
        let bytes = self.raw.as_bytes();
        let mut at = 0;
        iter::from_fn(move || {
            let (byte, len) = match &bytes[at..] {
                [b'\\', b'u', hex @ ..] => (hex.first_chunk().copied().map_or(FOREIGN, ascii), 6),
                [b'\\', b'/', ..] => (b'/', 2),
                [b'\\', ..] => (FOREIGN, 2),
                [byte, ..] => (*byte, 1),
                [] => return None,
            };
            at = bytes.len().min(at + len);
            Some((byte, at))
        })
    }
}

/// Looks at every byte without an early exit, so that the compiler can take many at once.
fn holds_control(plain: &[u8]) -> bool {
    plain.iter().fold(u8::MAX, |least, byte| least.min(*byte)) < b' '
}

fn escape_len(escape: &[u8]) -> Option<usize> {
    match escape {
        [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => Some(2),
        [_, b'u', a, b, c, d, ..] => [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()).then_some(6),
        _ => None,
    }
}

fn ascii(hex: [u8; 4]) -> u8 {
    let code = std::str::from_utf8(&hex).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
    code.filter(u8::is_ascii).unwrap_or(FOREIGN)
}
