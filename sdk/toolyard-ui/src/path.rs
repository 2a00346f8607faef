//! The path of an element: `Window[0]/Panel[1]/Button[2]`.

use std::fmt;
use std::str::FromStr;

/// The path of an element from its window. The index counts siblings of the same type; a segment without one means the
/// first.
///
/// ```
/// # use toolyard_ui::ElementPath;
/// let path: ElementPath = "Window/Button[2]".parse().unwrap();
/// assert_eq!(path.to_string(), "Window[0]/Button[2]");
/// assert_eq!("Window/[2]".parse::<ElementPath>().unwrap_err().to_string(), "Invalid path segment: [2]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementPath {
    segments: Vec<PathSegment>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathSegment {
    /// The type of the element.
    pub kind: String,
    /// Its position among the siblings of that type, from 0.
    pub index: usize,
}

/// A segment that is not `Type` or `Type[index]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSegment(String);

impl fmt::Display for InvalidSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invalid path segment: {}", self.0)
    }
}

impl std::error::Error for InvalidSegment {}

impl ElementPath {
    /// The steps, the window first.
    pub fn segments(&self) -> &[PathSegment] {
        &self.segments
    }
}

impl FromStr for ElementPath {
    type Err = InvalidSegment;

    fn from_str(text: &str) -> Result<Self, InvalidSegment> {
        let segments = text.split('/').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { segments })
    }
}

impl fmt::Display for ElementPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.segments.iter().enumerate() {
            let slash = if position == 0 { "" } else { "/" };
            write!(f, "{slash}{segment}")?;
        }
        Ok(())
    }
}

impl FromStr for PathSegment {
    type Err = InvalidSegment;

    fn from_str(text: &str) -> Result<Self, InvalidSegment> {
        let invalid = || InvalidSegment(text.chars().take(100).collect());
        let (kind, index) = match text.strip_suffix(']') {
            Some(open) => {
                let (kind, digits) = open.split_once('[').ok_or_else(invalid)?;
                // `parse` also takes a plus sign, which is not a digit.
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let index = if is_number { digits.parse().ok() } else { None };
                (kind, index.ok_or_else(invalid)?)
            }
            None => (text, 0),
        };
        if is_type_name(kind) { Ok(Self { kind: kind.to_owned(), index }) } else { Err(invalid()) }
    }
}

impl fmt::Display for PathSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.kind, self.index)
    }
}

/// Letters first, then also digits, `_` and `.`.
pub(crate) fn is_type_name(text: &str) -> bool {
    let is_rest = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_rest)
}

/// The nearest type name: what a path could not express is left out.
pub(crate) fn to_type_name(text: &str) -> String {
    let is_kept = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
    let kept: String = text.chars().filter(is_kept).take(60).collect();
    let kept = kept.trim_start_matches(|first: char| !first.is_ascii_alphabetic());
    if kept.is_empty() { "Element".to_owned() } else { kept.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_printed_path_is_read_as_the_same_path(
            segments in proptest::collection::vec(("[A-Za-z][A-Za-z0-9_.]{0,8}", 0usize..9999), 1..6)
        ) {
            let segments = segments.into_iter().map(|(kind, index)| PathSegment { kind, index }).collect();
            let path = ElementPath { segments };
            prop_assert_eq!(path.to_string().parse::<ElementPath>().unwrap(), path);
        }

        #[test]
        fn any_text_is_a_path_or_an_error_and_never_a_panic(text in "\\PC{0,40}") {
            if let Ok(path) = text.parse::<ElementPath>() {
                prop_assert_eq!(path.to_string().parse::<ElementPath>().unwrap(), path);
            }
        }

        #[test]
        fn every_text_becomes_a_type_name(text in "\\PC{0,40}") {
            prop_assert!(is_type_name(&to_type_name(&text)));
        }
    }

    #[test]
    fn a_bare_window_is_the_first_of_its_type() {
        assert_eq!("MainWindow".parse::<ElementPath>().unwrap().to_string(), "MainWindow[0]");
    }

    #[test]
    fn a_wrong_segment_is_named() {
        for (text, wrong) in [
            ("", ""),
            ("Window/", ""),
            ("Window/[1]", "[1]"),
            ("Window/Button[]", "Button[]"),
            ("Window/Button[-1]", "Button[-1]"),
            ("Window/Button[+1]", "Button[+1]"),
            ("Window/Button[1", "Button[1"),
            ("Window/1Button", "1Button"),
            ("Window/Bütton", "Bütton"),
            ("Window/Button[99999999999999999999999]", "Button[99999999999999999999999]"),
        ] {
            let error = text.parse::<ElementPath>().unwrap_err();
            assert_eq!(error.to_string(), format!("Invalid path segment: {wrong}"));
        }
    }
}
