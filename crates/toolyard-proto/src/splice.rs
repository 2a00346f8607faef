//! Edits one value inside JSON and keeps every other byte. Works on text already known to be valid JSON;
//! on anything else it may find nothing, but it never panics and never reads past the end.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

use crate::Raw;

/// One member of an object: its key, and the position of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub key: Key,
    pub value: Range<usize>,
}

impl Member {
    /// Whether the key is `name`, also when it was written with escapes.
    pub fn is(&self, object: &[u8], name: &str) -> bool {
        self.key.equals(object, name)
    }

    /// The same in a part of the text that begins at `start`.
    pub(crate) fn seen_from(self, start: usize) -> Self {
        let shift = |range: Range<usize>| range.start - start..range.end - start;
        Self { key: Key { at: shift(self.key.at), ..self.key }, value: shift(self.value) }
    }
}

/// The position of a key (with quotes), and whether it was written with escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub at: Range<usize>,
    is_escaped: bool,
}

impl Key {
    pub(crate) fn new(at: Range<usize>, is_escaped: bool) -> Self {
        Self { at, is_escaped }
    }

    /// The position of its text, if it has no escapes.
    pub(crate) fn plain(&self) -> Option<Range<usize>> {
        (!self.is_escaped).then_some(self.at.start + 1..self.at.end - 1)
    }

    /// Whether it is `name`.
    pub(crate) fn equals(&self, object: &[u8], name: &str) -> bool {
        match self.plain() {
            Some(plain) => object.get(plain) == Some(name.as_bytes()),
            None => *self.text(object) == *name.as_bytes(),
        }
    }

    /// Its text, with escapes decoded.
    pub(crate) fn text<'a>(&self, object: &'a [u8]) -> Cow<'a, [u8]> {
        let text = object.get(self.at.start + 1..self.at.end - 1).unwrap_or_default();
        if !self.is_escaped {
            return Cow::Borrowed(text);
        }
        let read = serde_json::from_slice::<String>(&object[self.at.clone()]);
        read.map_or(Cow::Borrowed(text), |text| Cow::Owned(text.into_bytes()))
    }
}

/// The members of an object, in order.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    bytes: &'a [u8],
    at: usize,
}

pub fn members(object: &[u8]) -> Members<'_> {
    members_at(object, skip_space(object, 0))
}

/// The members of the object that starts at `start`; of anything else, none.
pub(crate) fn members_at(bytes: &[u8], start: usize) -> Members<'_> {
    let at = if bytes.get(start) == Some(&b'{') { start + 1 } else { bytes.len() };
    Members { bytes, at }
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let start = skip_space(self.bytes, self.at);
        if self.bytes.get(start) != Some(&b'"') {
            return None;
        }
        let (end, is_escaped) = closing_quote(self.bytes, start)?;
        let key = Key { at: start..end, is_escaped };
        let colon = skip_space(self.bytes, end);
        if self.bytes.get(colon) != Some(&b':') {
            return None;
        }
        let from = skip_space(self.bytes, colon + 1);
        let value = from..end_of_value(self.bytes, from);
        let after = skip_space(self.bytes, value.end);
        self.at = if self.bytes.get(after) == Some(&b',') { after + 1 } else { after };
        Some(Member { key, value })
    }
}

/// The elements of an array, in order.
pub fn elements(array: &[u8]) -> Elements<'_> {
    let start = skip_space(array, 0);
    let at = if array.get(start) == Some(&b'[') { start + 1 } else { array.len() };
    Elements { bytes: array, at }
}

#[derive(Clone, Debug)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Iterator for Elements<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let from = skip_space(self.bytes, self.at);
        if matches!(self.bytes.get(from), None | Some(b']')) {
            return None;
        }
        let value = from..end_of_value(self.bytes, from);
        let after = skip_space(self.bytes, value.end);
        self.at = if self.bytes.get(after) == Some(&b',') { after + 1 } else { self.bytes.len() };
        Some(value)
    }
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Strings up to this long are searched byte by byte.
const SHORT: usize = 12;

/// The end of the string that starts at `at` (after the closing quote).
pub fn end_of_string(bytes: &[u8], at: usize) -> usize {
    closing_quote(bytes, at).map_or(bytes.len(), |(end, _)| end)
}

/// The same, if it ends, and whether it is written with escapes.
#[inline]
pub(crate) fn closing_quote(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    let (mut at, mut is_escaped) = (at + 1, false);
    // Keys and names are short: for them a plain loop beats the set-up of a wide search.
    let near = bytes.len().min(at + SHORT);
    while at < near {
        match bytes[at] {
            b'"' => return Some((at + 1, false)),
            b'\\' => break,
            _ => at += 1,
        }
    }
    while let Some(step) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        if bytes[at + step] == b'"' {
            return Some((at + step + 1, is_escaped));
        }
        is_escaped = true;
        at += step + 2;
    }
    None
}

/// The end of the value that starts at `at`.
pub fn end_of_value(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => end_of_string(bytes, at),
        Some(b'{' | b'[') => end_of_nested(bytes, at),
        _ => end_of_scalar(bytes, at),
    }
}

fn end_of_scalar(bytes: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
    bytes.get(at..).and_then(|rest| rest.iter().position(ends)).map_or(bytes.len(), |step| at + step)
}

fn end_of_nested(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = end_of_string(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The position of the value of `key` in `object`; of duplicates, the last, as most parsers read it.
pub fn find(object: &[u8], key: &str) -> Option<Range<usize>> {
    members(object).filter(|member| member.is(object, key)).last().map(|member| member.value)
}

/// The same, for a key that must not be duplicated: another parser may read the other one.
pub fn find_once(object: &[u8], key: &str) -> Result<Option<Range<usize>>, Twice> {
    let mut found = members(object).filter(|member| member.is(object, key));
    let first = found.next().map(|member| member.value);
    if found.next().is_some() { Err(Twice) } else { Ok(first) }
}

/// A duplicate key in one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twice;

/// The position of the value at the end of `path`.
pub fn find_path(object: &[u8], path: &[&str]) -> Option<Range<usize>> {
    let mut range = 0..object.len();
    for key in path {
        let inner = find(&object[range.clone()], key)?;
        range = range.start + inner.start..range.start + inner.end;
    }
    Some(range)
}

/// `bytes` with the given ranges (in order, not overlapping) replaced.
pub fn replace_all(bytes: &[u8], edits: &[(Range<usize>, &[u8])]) -> Vec<u8> {
    let added: usize = edits.iter().map(|(_, new)| new.len()).sum();
    let removed: usize = edits.iter().map(|(range, _)| range.len()).sum();
    // Exactly as much as is needed: then the bytes can be shared without another allocation.
    let mut out = Vec::with_capacity(bytes.len() + added - removed);
    let mut at = 0;
    for (range, new) in edits {
        out.extend_from_slice(&bytes[at..range.start]);
        out.extend_from_slice(new);
        at = range.end;
    }
    out.extend_from_slice(&bytes[at..]);
    out
}

impl Raw {
    /// The value of `key`, if this is an object that has it.
    pub fn member(&self, key: &str) -> Option<Raw> {
        find(self.as_bytes(), key).map(|range| self.slice(range))
    }

    pub fn at(&self, path: &[&str]) -> Option<Raw> {
        find_path(self.as_bytes(), path).map(|range| self.slice(range))
    }

    /// This value with the bytes of `range`, which hold one value, replaced by another.
    pub fn replaced(&self, range: Range<usize>, value: &[u8]) -> Raw {
        Raw::assembled(replace_all(self.as_bytes(), &[(range, value)]))
    }

    /// This object with `key` set: in place where it is there, else added at the end.
    pub fn with(&self, key: &str, value: &Raw) -> Raw {
        if let Some(range) = find(self.as_bytes(), key) {
            return self.replaced(range, value.as_bytes());
        }
        let name = Raw::from_serialize(&key);
        self.appended(&[name.as_bytes(), b":", value.as_bytes()].concat())
    }

    /// This object with a nested member set; objects on the way are made where they are missing.
    pub fn with_path(&self, path: &[&str], value: &Raw) -> Raw {
        let Some((key, rest)) = path.split_first() else { return value.clone() };
        if rest.is_empty() {
            return self.with(key, value);
        }
        let inner = self.member(key).filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
        self.with(key, &inner.with_path(rest, value))
    }

    /// This object with all of `members` (`"key":value` pairs, joined by commas) added at the end.
    fn appended(&self, members_text: &[u8]) -> Raw {
        let bytes = self.as_bytes();
        let Some(close) = bytes.iter().rposition(|byte| *byte == b'}') else { return self.clone() };
        let empty = members(bytes).next().is_none();
        let comma: &[u8] = if empty { b"" } else { b"," };
        let text = [comma, members_text].concat();
        Raw::assembled(replace_all(bytes, &[(close..close, &text)]))
    }

    /// This object without `keys`.
    pub fn without(&self, keys: &[&str]) -> Raw {
        let bytes = self.as_bytes();
        let all: Vec<Member> = members(bytes).collect();
        let goes = |member: &Member| keys.iter().any(|key| member.is(bytes, key));
        if !all.iter().any(goes) {
            return self.clone();
        }
        let mut out = vec![b'{'];
        for member in all.iter().filter(|member| !goes(member)) {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(&bytes[member.key.at.start..member.value.end]);
        }
        out.push(b'}');
        Raw::assembled(out)
    }

    /// This object without `keys` inside its member `outer`; an object left empty goes too.
    pub fn without_in(&self, outer: &str, keys: &[&str]) -> Raw {
        let Some(inner) = self.member(outer).filter(Raw::is_object) else { return self.clone() };
        let rest = inner.without(keys);
        if rest == inner {
            return self.clone();
        }
        if members(rest.as_bytes()).next().is_none() {
            self.without(&[outer])
        } else {
            self.with(outer, &rest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn only_the_named_value_changes() {
        let text = r#" {"a" : 1.0e1, "name":"x\"y", "z":[{"name":2}] , "é":null } "#.trim();
        let got = raw(text).with("name", &raw("\"new\""));
        assert_eq!(got.as_str(), r#"{"a" : 1.0e1, "name":"new", "z":[{"name":2}] , "é":null }"#);
    }

    #[test]
    fn a_missing_member_is_added_at_the_end() {
        assert_eq!(raw("{}").with("a", &raw("1")).as_str(), r#"{"a":1}"#);
        assert_eq!(raw(r#"{"b": 2 }"#).with("a", &raw("1")).as_str(), r#"{"b": 2 ,"a":1}"#);
        assert_eq!(raw("{}").with_path(&["a", "b"], &raw("1")).as_str(), r#"{"a":{"b":1}}"#);
    }

    #[test]
    fn members_go_without_a_trace() {
        assert_eq!(
            raw(r#"{"a":1, "b":{"c":[1,2]}, "d":"x"}"#).without(&["a", "d"]).as_str(),
            r#"{"b":{"c":[1,2]}}"#
        );
        assert_eq!(raw(r#"{"m":{"x":1}}"#).without_in("m", &["x"]).as_str(), "{}");
        assert_eq!(raw(r#"{"m":{"x":1,"y":2}}"#).without_in("m", &["x"]).as_str(), r#"{"m":{"y":2}}"#);
    }

    #[test]
    fn an_escaped_key_is_found() {
        assert_eq!(raw(r#"{"n\u0061me":"v"}"#).member("name").unwrap().as_str(), "\"v\"");
    }

    #[test]
    fn broken_text_is_survived() {
        for text in ["{", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":[", "[1,", "\"\\", "{\"a\":\"\\"] {
            for member in members(text.as_bytes()) {
                assert!(member.value.end <= text.len());
            }
            assert!(elements(text.as_bytes()).all(|range| range.end <= text.len()));
        }
    }
}
