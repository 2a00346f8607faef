//! Patterns over names, such as `files:read_*`.

use std::fmt;

/// A text in which `*` matches any run of characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The start of the text; the whole text where there is no `*`.
    head: String,
    /// The text that follows each `*`, in order; empty where there is none.
    rest: Vec<String>,
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        self.rest.iter().try_for_each(|part| write!(f, "*{part}"))
    }
}

impl Pattern {
    pub fn new(text: &str) -> Self {
        let mut parts = text.split('*').map(str::to_owned);
        Self { head: parts.next().unwrap_or_default(), rest: parts.collect() }
    }

    pub fn matches(&self, text: &str) -> bool {
        let Some((last, middle)) = self.rest.split_last() else { return self.head == text };
        let Some(mut left) = text.strip_prefix(self.head.as_str()) else { return false };
        for part in middle {
            let Some(at) = left.find(part.as_str()) else { return false };
            left = &left[at + part.len()..];
        }
        left.ends_with(last.as_str())
    }

    /// Larger is more specific: an exact id before every pattern, then by the number of characters that are given.
    pub fn specificity(&self) -> (bool, usize) {
        let given = self.head.len() + self.rest.iter().map(String::len).sum::<usize>();
        (self.rest.is_empty(), given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_run_of_characters() {
        for (pattern, text, expected) in [
            ("files:read", "files:read", true),
            ("files:read", "files:reads", false),
            ("files:*", "files:read", true),
            ("*:read_*", "files:read_all", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("*", "", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} on {text}");
            assert_eq!(Pattern::new(pattern).to_string(), pattern);
        }
    }
}
