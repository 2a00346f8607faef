//! The parameters of a request, with an outline of where their members stand. On its way a request is asked
//! again and again what it names and with which arguments; with the outline, its text is walked once.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::Raw;
use crate::scan::Scan;
use crate::splice::{self, Key, Member, Twice};

/// A request has a name, arguments and `_meta`, and that has as many members.
const USUAL: usize = 4;
/// Parameters with more members, or with more in `_meta`, have no outline: it would be larger than they are.
const MOST: usize = 64;

/// Parameters in the bytes they were sent in. Everything that can be asked of [`Raw`] can be asked of them; what
/// concerns their members is answered by the outline, where there is one.
#[must_use]
#[derive(Clone)]
pub struct Params {
    raw: Raw,
    outline: Option<Arc<Outline>>,
}

/// The positions of the members, and of those of `_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    members: Vec<Member>,
    /// The members of `_meta`; of the last one if there are several.
    meta: Vec<Member>,
}

impl Params {
    /// `{}`
    pub fn none() -> Self {
        Raw::empty_object().into()
    }

    pub(crate) fn new(raw: Raw, outline: Option<Outline>) -> Self {
        Self { raw, outline: outline.map(Arc::new) }
    }

    /// The same, with an outline where there can be one.
    pub(crate) fn outlined(mut self) -> Self {
        self.outline = self.outline.take().or_else(|| Outline::walk(self.raw.as_bytes()).map(Arc::new));
        self
    }

    /// Passes the members of `_meta` to `each` (of the last one, if there are several). Returns the number of `_meta`.
    pub(crate) fn each_of_meta(&self, mut each: impl FnMut(&Member)) -> usize {
        let bytes = self.as_bytes();
        if let Some(outline) = &self.outline {
            outline.meta.iter().for_each(each);
            return outline.find(bytes, "_meta").count();
        }
        let metas = splice::members(bytes).filter(|member| member.is(bytes, "_meta"));
        let (count, last) = metas.fold((0, None), |(count, _), meta| (count + 1, Some(meta.value)));
        if let Some(last) = last {
            splice::members_at(bytes, last.start).for_each(|member| each(&member));
        }
        count
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

    /// The value of `key` in `_meta`, if there is one; of several, the last.
    pub fn meta(&self, key: &str) -> Option<Raw> {
        let Some(outline) = &self.outline else { return self.raw.at(&["_meta", key]) };
        let found = outline.meta.iter().rfind(|member| member.is(self.as_bytes(), key))?;
        Some(self.raw.slice(found.value.clone()))
    }

    /// The position of the value of `key`; of duplicates, the last, as most parsers read it.
    pub fn find(&self, key: &str) -> Option<Range<usize>> {
        match &self.outline {
            Some(outline) => outline.find(self.as_bytes(), key).next_back(),
            None => splice::find(self.as_bytes(), key),
        }
    }

    /// The position of the value of `key`; an error if the key occurs twice.
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

    /// Replaces the value at `range`.
    pub fn replaced(self, range: Range<usize>, value: &[u8]) -> Self {
        let is_inside = |meta: Range<usize>| meta.start <= range.start && range.end <= meta.end;
        let is_meta = self.find("_meta").is_some_and(is_inside);
        let outline = self.outline.filter(|_| !is_meta).map(Arc::unwrap_or_clone);
        let outline = outline.map(|outline| outline.replaced(&range, value.len()));
        Self::new(self.raw.replaced(range, value), outline)
    }
}

impl Outline {
    /// Skips the object at this position; gives up on one with very many members.
    pub(crate) fn scan(scan: &mut Scan<'_>) -> Option<Self> {
        let start = scan.at();
        let mut outline = Self { members: Vec::with_capacity(USUAL), meta: Vec::new() };
        scan.object(|scan, key| {
            let from = scan.at();
            let is_meta = scan.key_equals(&key, "_meta");
            if is_meta {
                outline.meta = Vec::with_capacity(USUAL);
            }
            if is_meta && scan.peek() == b'{' {
                scan.object(|scan, key| {
                    let from = scan.at();
                    scan.value()?;
                    (outline.meta.len() < MOST).then_some(())?;
                    outline.meta.push(Member { key, value: from..scan.at() }.seen_from(start));
                    Some(())
                })?;
            } else {
                scan.value()?;
            }
            (outline.members.len() < MOST).then_some(())?;
            outline.members.push(Member { key, value: from..scan.at() }.seen_from(start));
            Some(())
        })?;
        Some(outline)
    }

    /// The outline of text that is known to be JSON; `None` if it has very many members.
    fn walk(params: &[u8]) -> Option<Self> {
        let members: Vec<Member> = splice::members(params).take(MOST + 1).collect();
        let meta = members.iter().rfind(|member| member.is(params, "_meta"));
        let meta = meta.map(|meta| splice::members_at(params, meta.value.start).take(MOST + 1).collect());
        let outline = Self { members, meta: meta.unwrap_or_default() };
        (outline.members.len() <= MOST && outline.meta.len() <= MOST).then_some(outline)
    }

    fn find(&self, bytes: &[u8], key: &str) -> impl DoubleEndedIterator<Item = Range<usize>> {
        let found = self.members.iter().filter(move |member| member.is(bytes, key));
        found.map(|member| member.value.clone())
    }

    /// The outline after a value outside of `_meta` was replaced by one of another length: everything after it moves.
    fn replaced(mut self, range: &Range<usize>, len: usize) -> Self {
        for Member { key: Key { at: key, .. }, value } in self.members.iter_mut().chain(&mut self.meta) {
            for place in [&mut key.start, &mut key.end, &mut value.start, &mut value.end] {
                if *place >= range.end {
                    *place = *place - range.len() + len;
                }
            }
        }
        self
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
