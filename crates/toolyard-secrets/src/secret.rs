//! A value that is never printed and is erased from memory when it is dropped.

use std::fmt;

use zeroize::Zeroizing;

/// A secret value. It has no `Display`, and its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// The value of a secret is not UTF-8 text.
#[derive(Debug, thiserror::Error)]
#[error("the value of the secret is not UTF-8 text")]
pub struct NotText;

impl Secret {
    /// The value of bytes or text.
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// The value. Do not log or print it.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The value as text. Do not log or print it.
    pub fn text(&self) -> Result<&str, NotText> {
        std::str::from_utf8(&self.0).map_err(|_| NotText)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(********)")
    }
}
