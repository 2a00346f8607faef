//! A path below the root, clean once and for all: names only, no `.`, no `..`, nothing absolute.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::JailError;

/// The longest name that common file systems take.
const LONGEST_NAME: usize = 255;

/// A path below the root. Paths compare part by part, in the order in which folders are walked: what is in
/// `a/` comes right after `a`, and before `a b`.
///
/// ```
/// use toolyard_jail::Inside;
///
/// # fn main() -> Result<(), toolyard_jail::JailError> {
/// let song = Inside::root().join("Abba")?.join("Waterloo.flac")?;
/// assert_eq!((song.to_string().as_str(), song.depth()), ("Abba/Waterloo.flac", 2));
/// assert!(song.is_within(&Inside::root().join("Abba")?));
/// assert!(Inside::root().join("..").is_err(), "no name");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inside(Vec<OsString>);

impl Inside {
    /// The root.
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Its last part.
    pub fn name(&self) -> Option<&OsStr> {
        self.0.last().map(OsString::as_os_str)
    }

    /// Its parts, from the root down.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &OsStr> {
        self.0.iter().map(OsString::as_os_str)
    }

    /// How many parts it has.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// The folder that it is in; none for the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.split_last().map(|(_, rest)| Self(rest.to_vec()))
    }

    /// One step down. The name must be one.
    pub fn join(&self, name: impl AsRef<OsStr>) -> Result<Self, JailError> {
        let name = name.as_ref();
        check_name(name).map_err(|why| JailError::Invalid { path: name.to_string_lossy().into(), why })?;
        Ok(self.join_checked(name))
    }

    pub(crate) fn join_checked(&self, name: &OsStr) -> Self {
        let mut parts = self.0.clone();
        parts.push(name.to_owned());
        Self(parts)
    }

    /// Whether it is `other` or below it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// As a relative path; empty for the root.
    pub fn as_path(&self) -> PathBuf {
        self.0.iter().collect()
    }
}

/// With `/` between the parts; the root is `.`.
impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        let parts: Vec<_> = self.0.iter().map(|part| part.to_string_lossy()).collect();
        f.write_str(&parts.join("/"))
    }
}

pub(crate) fn parse(text: &str, roots: &[&Path]) -> Result<Inside, JailError> {
    let outside = || JailError::Outside { path: text.to_owned() };
    let invalid = |why| JailError::Invalid { path: text.to_owned(), why };
    if text.is_empty() {
        return Err(invalid("it is empty; the root folder is `.`"));
    }
    let path = Path::new(text);
    // Refused even where it would lead back inside: what `a/..` means depends on whether `a` is a link.
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(outside());
    }
    let relative = if path.is_absolute() {
        roots.iter().find_map(|root| path.strip_prefix(root).ok()).ok_or_else(outside)?
    } else {
        path
    };
    let mut parts = Vec::new();
    for part in relative.components() {
        match part {
            Component::Normal(name) => {
                check_name(name).map_err(invalid)?;
                parts.push(name.to_owned());
            }
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
    }
    Ok(Inside(parts))
}

fn check_name(name: &OsStr) -> Result<(), &'static str> {
    let bytes = name.as_encoded_bytes();
    match bytes {
        [] | b"." | b".." => Err("a part of it is not a name"),
        _ if bytes.contains(&0) => Err("it holds a NUL character"),
        _ if bytes.contains(&b'/') => Err("a name cannot hold a slash"),
        _ if bytes.len() > LONGEST_NAME => Err("a part of it is longer than 255 bytes"),
        _ => Ok(()),
    }
}
