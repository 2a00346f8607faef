//! The members of a JSON-RPC message, separated in one pass: their values are checked to be JSON, and
//! the positions of the members of `params` are recorded.

use std::borrow::Cow;
use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::params::Outline;
use crate::scan::Scan;

/// Each member as it is in the text.
#[derive(Default, Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(super) jsonrpc: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) id: Option<&'a str>,
    #[serde(borrow, default)]
    pub(super) method: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) params: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) result: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) error: Option<&'a str>,
    /// The outline of `params`, if the scan recorded one.
    #[serde(skip)]
    pub(super) outline: Option<Outline>,
}

impl<'a> Envelope<'a> {
    /// Nearly every message is read by the quick scan. serde reads the others, which have escapes or are invalid.
    pub(super) fn read(text: &'a str) -> Result<Self, serde_json::Error> {
        Self::scan(text).map_or_else(|| serde_json::from_str(text), Ok)
    }

    fn scan(text: &'a str) -> Option<Self> {
        let (mut scan, mut found) = (Scan::new(text), Self::default());
        scan.skip_space();
        scan.object(|scan, key| match &text[key.plain()?] {
            "jsonrpc" => put(&mut found.jsonrpc, scan.plain_string()?.into()),
            "id" => put(&mut found.id, scan.value()?),
            "method" => put(&mut found.method, scan.plain_string()?.into()),
            "params" if scan.peek() == b'{' => {
                let start = scan.at();
                found.outline = Some(Outline::scan(scan)?);
                put(&mut found.params, &text[start..scan.at()])
            }
            "params" => put(&mut found.params, scan.value()?),
            "result" => put(&mut found.result, scan.value()?),
            "error" => put(&mut found.error, scan.value()?),
            _ => scan.value().map(drop),
        })?;
        scan.is_done().then_some(found)
    }
}

/// Sets a member; `None` if it is a duplicate.
fn put<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// A string that is copied only if it was written with escapes; `Cow` inside an `Option` always copies.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Strings;

        impl<'de> Visitor<'de> for Strings {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Strings)
    }
}

/// Distinguishes `null` from an absent member.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a str>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(|value| Some(value.get()))
}

#[cfg(test)]
mod tests;
