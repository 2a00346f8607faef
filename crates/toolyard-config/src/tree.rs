//! A config file as a tree in which every key and value has its position, in either format.

mod json;
mod toml;

use std::path::{Path, PathBuf};

use super::problem::Problem;

/// A file that was read, under the name the user knows it by.
#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    pub text: String,
}

/// A value and the byte at which it starts.
#[derive(Clone, Debug)]
pub struct Node {
    pub at: usize,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    Integer(i64),
    /// A number with a fraction, which is finite.
    Fraction(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// Something that no key takes, by its name.
    Other(&'static str),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub at: usize,
    pub node: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Toml,
    Json,
}

impl File {
    /// JSON by its name, or because it opens as no TOML file can.
    pub fn format(&self) -> Format {
        let is_named_so =
            self.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        if is_named_so || self.text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
            Format::Json
        } else {
            Format::Toml
        }
    }

    /// The entries of the file, in the order in which they are written.
    pub fn entries(&self) -> Result<Vec<Entry>, Vec<Problem>> {
        match self.format() {
            Format::Toml => toml::parse(self),
            Format::Json => json::parse(self),
        }
    }

    /// The folder that relative paths in the file start from.
    pub fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }
}

impl Value {
    /// The kind of the value, in the words of a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "a number",
            Self::Fraction(_) => "a number with a fraction",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }
}
