//! JSON that is carried, not modelled: the bytes as they were sent, known to be one valid JSON value.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// A message up to this size is kept whole, whatever is left of it.
const WORTH_FREEING: usize = 64 * 1024;

/// One JSON value in its original bytes (valid UTF-8, no surrounding white space). Cloning is cheap.
#[must_use]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Raw(Bytes);

impl Raw {
    /// `{}`
    pub fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// A value that shares the memory of `whole`. A small part of a large text is copied: it may be
    /// kept for long, and must not keep the unused rest in memory.
    pub(crate) fn part_of(whole: &Bytes, part: &str) -> Self {
        let part = part.as_bytes();
        let is_mostly_waste = whole.len() > WORTH_FREEING && part.len() < whole.len() / 2;
        Self(if is_mostly_waste { Bytes::copy_from_slice(part) } else { whole.slice_ref(part) })
    }

    /// An array of values that are already JSON.
    pub fn array(values: &[Raw]) -> Self {
        let size = values.iter().map(|value| value.len() + 1).sum::<usize>() + 2;
        let mut out = Vec::with_capacity(size);
        out.push(b'[');
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(value.as_bytes());
        }
        out.push(b']');
        Self(Bytes::from(out))
    }

    /// Checks that `bytes` hold exactly one JSON value and keeps them.
    pub fn parse(bytes: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let bytes = bytes.into();
        let value: &RawValue = serde_json::from_slice(&bytes)?;
        Ok(Self::part_of(&bytes, value.get()))
    }

    /// Renders a value of ours. Everything we render is a plain structure, for which this cannot fail.
    pub fn from_serialize(value: &impl Serialize) -> Self {
        Self(Bytes::from(serde_json::to_vec(value).expect("plain data always renders as JSON")))
    }

    /// Wraps bytes that were assembled from valid parts.
    pub fn assembled(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        debug_assert!(serde_json::from_slice::<&RawValue>(&bytes).is_ok(), "assembled JSON is valid");
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn bytes(&self) -> Bytes {
        self.0.clone()
    }

    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("checked when it was made")
    }

    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// A sub-range known to hold one value.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self(self.0.slice(range))
    }

    /// The typed view of the few things we read.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The same, with `\ufffd` for each half of a surrogate pair. Such text is JSON, but cannot be read otherwise.
    pub fn read_lossy<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&without_half_pairs(self.as_str()))
    }

    /// The string, if this is a JSON string.
    pub fn as_string(&self) -> Option<String> {
        self.text().map(Cow::into_owned)
    }

    /// The same, copied only if it was written with escapes.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        let inner = self.0.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if inner.contains(&b'\\') {
            return self.read().ok().map(Cow::Owned);
        }
        std::str::from_utf8(inner).ok().map(Cow::Borrowed)
    }

    pub fn is_null(&self) -> bool {
        self.0.as_ref() == b"null"
    }
}

/// JSON text, which may be cut, with `\ufffd` for each escape that is half of a surrogate pair, such as `\ud83d` alone.
pub fn without_half_pairs(json: &str) -> Cow<'_, str> {
    let (mut out, mut kept, mut at) = (String::new(), 0, 0);
    while let Some(offset) = json.as_bytes().get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += offset;
        at += match (escaped_unit(json, at), escaped_unit(json, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str(&json[kept..at]);
                out.push_str("\\ufffd");
                kept = at + 6;
                6
            }
            _ => 2,
        };
    }
    if kept == 0 { Cow::Borrowed(json) } else { Cow::Owned(out + &json[kept..]) }
}

/// The number of the `\uXXXX` that begins here.
fn escaped_unit(json: &str, at: usize) -> Option<u16> {
    let digits = json.as_bytes().get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u16::from_str_radix(digits, 16).ok()
}

/// Writes a string as JSON. Most need no escapes.
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    let needs_escape = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    if text.bytes().fold(false, |found, byte| found | needs_escape(byte)) {
        out.extend_from_slice(Raw::from_serialize(&text).as_bytes());
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Raw {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Bytes::from(String::from(Box::<str>::from(value)).into_bytes())))
    }
}

impl From<serde_json::Value> for Raw {
    fn from(value: serde_json::Value) -> Self {
        Self::from_serialize(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_surrogate_pair_is_replaced_and_nothing_else() {
        for (json, expected) in [
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""a\uDE00b""#, "a\u{fffd}b"),
            (r#""\ud83d\ud83d\ude00\ude00""#, "\u{fffd}\u{1f600}\u{fffd}"),
            (r#""\ud83d\n\\ud83d""#, "\u{fffd}\n\\ud83d"),
            (r#""\u00e9é""#, "éé"),
        ] {
            let raw = Raw::parse(json.as_bytes().to_vec()).unwrap();
            assert_eq!(raw.read_lossy::<String>().unwrap(), expected, "{json}");
        }
        for text in ["", "\\", r"\ud83", r"\u+d83é", r"\ud83d\ude00", r"\é\é"] {
            assert_eq!(without_half_pairs(text), text);
        }
        assert_eq!(without_half_pairs(r"\ud83d\ude0"), r"\ufffd\ude0");
    }
}
