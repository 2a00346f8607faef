//! How files are named: a template such as `{album_artist}/{album} ({year})/{track:02d} {title}`, in both
//! directions. From values to a path, and from a path back to its values.

mod fit;
mod parse;
mod render;

pub(crate) use render::{Values, sanitised};

/// A template: folders and a file, each made of pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Vec<Piece>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Field(Placeholder),
}

/// `{name}`, `{name:02d}`, `{name|fallback}`, or all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placeholder {
    name: String,
    /// Filled up with zeros to this length; the value must be a number then.
    digits: Option<usize>,
    fallback: Option<String>,
}

impl Template {
    /// Whether the ending of files is part of it.
    pub(crate) fn names_the_ending(&self) -> bool {
        self.fields().any(|field| field.name == "ext")
    }

    /// The names of its fields.
    pub(crate) fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields().map(|field| field.name.as_str())
    }

    fn fields(&self) -> impl Iterator<Item = &Placeholder> {
        self.parts.iter().flatten().filter_map(|piece| match piece {
            Piece::Field(field) => Some(field),
            Piece::Literal(_) => None,
        })
    }
}

#[cfg(test)]
mod tests;
