//! The header fields of a request, whether hyper or the fast path has read them.

use http::header::ValueIter;
use http::{HeaderMap, HeaderName, HeaderValue};

#[derive(Clone, Copy)]
pub(crate) enum Fields<'a> {
    Map(&'a HeaderMap),
    /// As they are in the request.
    Lines(&'a [httparse::Header<'a>]),
}

impl<'a> Fields<'a> {
    pub(crate) fn all(self, name: &HeaderName) -> Values<'a, '_> {
        match self {
            Self::Map(map) => Values::Map(map.get_all(name).iter()),
            Self::Lines(lines) => Values::Lines(lines, name.as_str()),
        }
    }

    pub(crate) fn first(self, name: &HeaderName) -> Option<&'a [u8]> {
        match self {
            Self::Map(map) => map.get(name).map(HeaderValue::as_bytes),
            Self::Lines(lines) => {
                let name = name.as_str();
                lines.iter().find(|line| is(line, name)).map(|line| line.value)
            }
        }
    }

    /// The value of that name, which may occur only once.
    pub(crate) fn once(self, name: &HeaderName) -> Result<Option<&'a [u8]>, Twice> {
        let mut found = None;
        let mut add = |value| if found.replace(value).is_some() { Err(Twice) } else { Ok(()) };
        match self {
            Self::Map(map) => map.get_all(name).iter().try_for_each(|value| add(value.as_bytes()))?,
            Self::Lines(lines) => {
                let name = name.as_str();
                lines.iter().filter(|line| is(line, name)).try_for_each(|line| add(line.value))?;
            }
        }
        Ok(found)
    }

    /// The first of that name, if it is plain text.
    pub(crate) fn text(self, name: &HeaderName) -> Option<&'a str> {
        self.first(name).and_then(text)
    }

    /// Those whose names begin like this, if there are any.
    pub(crate) fn starting(self, prefix: &str) -> Option<Box<HeaderMap>> {
        let begins =
            |name: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        let mut out: Option<Box<HeaderMap>> = None;
        let mut add = |name: HeaderName, value: HeaderValue| {
            out.get_or_insert_default().append(name, value);
        };
        match self {
            Self::Map(map) => map
                .iter()
                .filter(|(name, _)| begins(name.as_str()))
                .for_each(|(name, value)| add(name.clone(), value.clone())),
            Self::Lines(lines) => lines
                .iter()
                .filter(|line| begins(line.name))
                .filter_map(owned)
                .for_each(|(name, value)| add(name, value)),
        }
        out
    }

    pub(crate) fn to_map(self) -> HeaderMap {
        match self {
            Self::Map(map) => map.clone(),
            Self::Lines(lines) => lines.iter().filter_map(owned).collect(),
        }
    }
}

/// A duplicate header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Twice;

/// Most names already differ in their length.
fn is(line: &httparse::Header<'_>, name: &str) -> bool {
    line.name.len() == name.len() && line.name.eq_ignore_ascii_case(name)
}

/// A line that `httparse` accepted as owned values: it accepts nothing that these types do not.
fn owned(line: &httparse::Header<'_>) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
    Some((name, HeaderValue::from_bytes(line.value).ok()?))
}

/// A value as text, if that is what it is: it may have bytes of any encoding, though no control characters.
pub(crate) fn text(value: &[u8]) -> Option<&str> {
    if value.is_ascii() { std::str::from_utf8(value).ok() } else { None }
}

/// The values of one name, in their order.
pub(crate) enum Values<'a, 'n> {
    Map(ValueIter<'a, HeaderValue>),
    Lines(&'a [httparse::Header<'a>], &'n str),
}

impl<'a> Iterator for Values<'a, '_> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            Self::Map(values) => values.next().map(HeaderValue::as_bytes),
            Self::Lines(lines, name) => loop {
                let (line, rest) = lines.split_first()?;
                *lines = rest;
                if is(line, name) {
                    return Some(line.value);
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: HeaderName = HeaderName::from_static("mcp-name");

    /// Checks the same lines in both forms.
    fn check(lines: &[(&str, &[u8])], values: &[&[u8]], first_text: Option<&str>, of_prefix: usize) {
        let lines: Vec<_> = lines.iter().map(|&(name, value)| httparse::Header { name, value }).collect();
        let map = Fields::Lines(&lines).to_map();
        for fields in [Fields::Lines(&lines), Fields::Map(&map)] {
            assert_eq!(fields.all(&NAME).collect::<Vec<_>>(), values);
            assert_eq!(fields.first(&NAME), values.first().copied());
            let once = if values.len() > 1 { Err(Twice) } else { Ok(values.first().copied()) };
            assert_eq!(fields.once(&NAME), once);
            assert_eq!(fields.text(&NAME), first_text);
            assert_eq!(fields.starting("mcp-param-").map_or(0, |found| found.len()), of_prefix);
            assert_eq!(fields.to_map(), map);
        }
    }

    #[test]
    fn fields_are_the_same_in_both_forms() {
        check(&[], &[], None, 0);
        check(&[("Mcp-Name", b"echo"), ("accept", b"*/*")], &[b"echo"], Some("echo"), 0);
        check(&[("mcp-name", b"a"), ("MCP-NAME", b"b")], &[b"a", b"b"], Some("a"), 0);
        check(&[("mcp-name", b"\xc3\xa4")], &[b"\xc3\xa4"], None, 0);
        check(&[("mcp-name", b"a\tb c")], &[b"a\tb c"], Some("a\tb c"), 0);
        check(&[("Mcp-Param-A", b"1"), ("mcp-param-a", b"2"), ("mcp-param", b"3")], &[], None, 2);
    }
}
