//! The parameters of a request, with an outline of where their members stand. On its way a request is asked
//! again and again what it names and with which arguments; with the outline, its text is walked once.

use std::fmt;
use std::ops::{Deref, Range};

use crate::Raw;
use crate::splice::{self, Key, Twice};

/// As many members have a place in an outline.
const PLACES: usize = 6;

/// Parameters in the bytes they were sent in. Everything that can be asked of [`Raw`] can be asked of them; what
/// concerns their members is answered by the outline, where there is one.
#[must_use]
#[derive(Clone)]
pub struct Params {
    raw: Raw,
    outline: Option<Outline>,
}

/// Where the members stand, in order.
#[derive(Clone, Copy, Debug, Default)]
struct Outline {
    places: [Place; PLACES],
    taken: usize,
}

/// One member. Offsets are half as large as usual, since an outline travels with its request.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Without the quotes.
    key: Span,
    value: Span,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Params {
    /// `{}`
    pub fn none() -> Self {
        Raw::empty_object().into()
    }

    pub fn as_raw(&self) -> &Raw {
        &self.raw
    }

    pub fn into_raw(self) -> Raw {
        self.raw
    }

    /// The value of `key`, if there is one; of several, the last.
    pub fn member(&self, key: &str) -> Option<Raw> {
        self.find(key).map(|range| self.raw.slice(range))
    }

    /// Where the value of `key` stands; of several, the last, as most parsers read it.
    pub fn find(&self, key: &str) -> Option<Range<usize>> {
        match &self.outline {
            Some(outline) => outline.find(self.as_bytes(), key).last(),
            None => splice::find(self.as_bytes(), key),
        }
    }

    /// The same, for a key that must not stand there twice.
    pub fn find_once(&self, key: &str) -> Result<Option<Range<usize>>, Twice> {
        let Some(outline) = &self.outline else { return splice::find_once(self.as_bytes(), key) };
        let mut found = outline.find(self.as_bytes(), key);
        let first = found.next();
        if found.next().is_some() { Err(Twice) } else { Ok(first) }
    }

    pub fn at(&self, path: &[&str]) -> Option<Raw> {
        match path {
            [] => Some(self.raw.clone()),
            [key, rest @ ..] => self.member(key)?.at(rest),
        }
    }

    /// With the value that stands at `range` replaced by another.
    pub fn replaced(&self, range: Range<usize>, value: &[u8]) -> Self {
        let outline = self.outline.and_then(|outline| outline.replaced(&range, value.len()));
        Self { raw: self.raw.replaced(range, value), outline }
    }
}

impl Outline {
    fn find(&self, bytes: &[u8], key: &str) -> impl Iterator<Item = Range<usize>> {
        let is_it = move |place: &&Place| bytes.get(place.key.range()) == Some(key.as_bytes());
        self.places[..self.taken].iter().filter(is_it).map(|place| place.value.range())
    }

    /// What stands after the value moves.
    fn replaced(mut self, range: &Range<usize>, len: usize) -> Option<Self> {
        let moved = |at: u32| u32::try_from(at as usize - range.len() + len).ok();
        for Place { key, value } in &mut self.places[..self.taken] {
            if value.start as usize >= range.end {
                (key.start, key.end, value.start) = (moved(key.start)?, moved(key.end)?, moved(value.start)?);
            }
            if value.end as usize >= range.end {
                value.end = moved(value.end)?;
            }
        }
        Some(self)
    }
}

impl Span {
    fn new(range: &Range<usize>) -> Option<Self> {
        Some(Self { start: u32::try_from(range.start).ok()?, end: u32::try_from(range.end).ok()? })
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Draws the outline while somebody walks the text.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    outline: Outline,
    /// There are too many members, or a key was written with escapes: better no outline than a wrong one.
    is_lacking: bool,
}

impl Draft {
    pub(crate) fn add(&mut self, key: &Key, value: &Range<usize>) {
        let place = || Some(Place { key: Span::new(&key.plain()?)?, value: Span::new(value)? });
        match (self.outline.places.get_mut(self.outline.taken), place()) {
            (Some(free), Some(place)) => {
                *free = place;
                self.outline.taken += 1;
            }
            _ => self.is_lacking = true,
        }
    }

    pub(crate) fn finish(self, raw: Raw) -> Params {
        Params { raw, outline: (!self.is_lacking).then_some(self.outline) }
    }
}

impl From<Raw> for Params {
    /// Without an outline: the text is walked when something is asked.
    fn from(raw: Raw) -> Self {
        Self { raw, outline: None }
    }
}

impl From<serde_json::Value> for Params {
    fn from(value: serde_json::Value) -> Self {
        Raw::from(value).into()
    }
}

impl Deref for Params {
    type Target = Raw;

    fn deref(&self) -> &Raw {
        &self.raw
    }
}

impl Default for Params {
    fn default() -> Self {
        Self::none()
    }
}

impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

#[cfg(test)]
mod tests;
