//! Extracts the values of a template from a path.

use toolyard_tool::ToolError;

use super::parse::wrong;
use super::render::Values;
use super::{Piece, Placeholder, Template};

/// The most attempts at one name; a name that does not match by then does not match.
const MOST_STEPS: usize = 20_000;

impl Template {
    /// Ensures that every path matches in at most one way: there must be text between two placeholders.
    pub(crate) fn check_reversible(&self) -> Result<(), ToolError> {
        for part in &self.parts {
            let is_unclear = part.windows(2).any(|two| matches!(two, [Piece::Field(_), Piece::Field(_)]));
            if is_unclear {
                return Err(wrong(
                    "two placeholders follow each other without text between them, so their values cannot be separated",
                ));
            }
        }
        Ok(())
    }

    /// The values in a path, if it matches. The path has no extension unless the template names it.
    pub(crate) fn fit(&self, names: &[&str]) -> Option<Values> {
        if names.len() != self.parts.len() {
            return None;
        }
        let mut values = Values::new();
        for (part, name) in self.parts.iter().zip(names) {
            let mut steps = 0;
            for (field, value) in fit_part(part, name, &mut steps)? {
                // A field that occurs twice must have the same value twice.
                let known = values.insert(field.name.clone(), value.to_owned());
                if known.is_some_and(|known| known != value) {
                    return None;
                }
            }
        }
        Some(values)
    }

    /// The values in the folders of a path.
    pub(crate) fn fit_folders(&self, names: &[&str]) -> Option<Values> {
        let folders = Self { parts: self.parts.split_last()?.1.to_vec() };
        folders.fit(names)
    }
}

fn fit_part<'t>(
    pieces: &'t [Piece],
    text: &'t str,
    steps: &mut usize,
) -> Option<Vec<(&'t Placeholder, &'t str)>> {
    *steps += 1;
    if *steps > MOST_STEPS {
        return None;
    }
    let Some((piece, rest)) = pieces.split_first() else { return text.is_empty().then(Vec::new) };
    let field = match piece {
        Piece::Literal(literal) => return fit_part(rest, text.strip_prefix(literal.as_str())?, steps),
        Piece::Field(field) => field,
    };
    let Some(Piece::Literal(next)) = rest.first() else {
        return fits(field, text).then(|| vec![(field, text)]);
    };
    let mut ends: Vec<usize> = text.match_indices(next.as_str()).map(|(at, _)| at).collect();
    // Before the last placeholder, the longest value wins: in `A - B - C`, `{artist} - {title}` has the
    // title `C`.
    if rest.iter().filter(|piece| matches!(piece, Piece::Field(_))).count() <= 1 {
        ends.reverse();
    }
    ends.into_iter().find_map(|end| {
        let value = &text[..end];
        let mut found = fits(field, value).then(|| fit_part(rest, &text[end..], steps)).flatten()?;
        found.insert(0, (field, value));
        Some(found)
    })
}

fn fits(field: &Placeholder, value: &str) -> bool {
    match field.digits {
        _ if value.is_empty() => false,
        Some(digits) => {
            (value.len() >= digits && value.bytes().all(|byte| byte.is_ascii_digit()))
                || field.fallback.as_deref() == Some(value)
        }
        None => true,
    }
}
