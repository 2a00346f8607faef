//! Reading a template.

use toolyard_tool::ToolError;

use super::{Piece, Placeholder, Template};

/// More pieces in one name would only make matching slow.
const MOST_PIECES: usize = 24;
const MOST_DIGITS: usize = 9;

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, ToolError> {
        if text.starts_with('/') || text.starts_with('\\') {
            return Err(wrong("a template is relative to the root: it must not begin with a slash"));
        }
        let mut parts = vec![Vec::new()];
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}', '/']) {
            let part = parts.last_mut().ok_or_else(|| wrong("it is empty"))?;
            literal(part, &rest[..at]);
            match rest.as_bytes()[at] {
                b'/' => {
                    parts.push(Vec::new());
                    rest = &rest[at + 1..];
                }
                b'{' => {
                    let end = rest[at..].find('}').ok_or_else(|| wrong("a `{` is not closed"))? + at;
                    part.push(Piece::Field(placeholder(&rest[at + 1..end])?));
                    rest = &rest[end + 1..];
                }
                _ => return Err(wrong("a `}` has no `{`")),
            }
        }
        if let Some(part) = parts.last_mut() {
            literal(part, rest);
        }
        check(&parts)?;
        Ok(Self { parts })
    }
}

fn literal(part: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        part.push(Piece::Literal(text.to_owned()));
    }
}

fn placeholder(text: &str) -> Result<Placeholder, ToolError> {
    let (head, fallback) = match text.split_once('|') {
        Some((head, fallback)) => (head, Some(fallback.to_owned())),
        None => (text, None),
    };
    let (name, form) = match head.split_once(':') {
        Some((name, form)) => (name, Some(form)),
        None => (head, None),
    };
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Err(wrong(&format!("`{{{text}}}` names no field")));
    }
    let digits =
        form.map(|form| digits(form).ok_or_else(|| wrong(&format!("`:{form}` is not a form: write `:02d`"))));
    Ok(Placeholder { name: name.to_owned(), digits: digits.transpose()?, fallback })
}

/// `02d` is two digits.
fn digits(form: &str) -> Option<usize> {
    let number = form.strip_prefix('0')?.strip_suffix('d')?;
    number.parse().ok().filter(|digits| (1..=MOST_DIGITS).contains(digits))
}

fn check(parts: &[Vec<Piece>]) -> Result<(), ToolError> {
    for part in parts {
        match part.as_slice() {
            [] => return Err(wrong("a part between slashes is empty")),
            [Piece::Literal(name)] if name == "." || name == ".." => {
                return Err(wrong("`.` and `..` are not names"));
            }
            pieces if pieces.len() > MOST_PIECES => return Err(wrong("a name has too many placeholders")),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn wrong(why: &str) -> ToolError {
    ToolError::new(format!("the template is not valid: {why}"))
        .hint("an example: `{album_artist}/{album} ({year|0000})/{track:02d} {title}`")
}
