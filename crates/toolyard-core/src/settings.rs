//! Settings that differ by profile, upstream and tool. A setting is given by rules, each for a pattern over
//! canonical ids (`files:read_*`) and perhaps for one profile; of the rules that fit and set a value, the most
//! specific one decides. Rules are compiled once, when the configuration is read.

use std::cmp::Reverse;
use std::fmt;

/// A text in which `*` matches any run of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// What the text starts with; the whole text where there is no `*`.
    head: String,
    /// What follows each `*`, in order; empty where there is none.
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
    fn specificity(&self) -> (bool, usize) {
        let given = self.head.len() + self.rest.iter().map(String::len).sum::<usize>();
        (self.rest.is_empty(), given)
    }
}

/// What a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliesTo {
    /// In this profile only.
    pub profile: Option<String>,
    /// Over canonical ids; `*` is everything, `files:*` one upstream.
    pub pattern: Pattern,
}

/// Which tool, prompt or upstream a setting is looked up for, and in which profile.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub profile: Option<&'a str>,
    /// `upstream:tool`; `upstream:` for requests that name neither tool nor prompt.
    pub canonical: &'a str,
}

/// Rules for settings of type `T`, the most specific first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules<T>(Vec<(AppliesTo, T)>);

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Rules<T> {
    /// Of rules that are equally specific, the earlier one is preferred.
    pub fn new(rules: impl IntoIterator<Item = (AppliesTo, T)>) -> Self {
        let mut rules: Vec<(AppliesTo, T)> = rules.into_iter().collect();
        rules.sort_by_key(|(applies, _)| Reverse((applies.pattern.specificity(), applies.profile.is_some())));
        Self(rules)
    }

    /// What `pick` takes from the most specific rule that sets it.
    pub fn find<'a, U>(&'a self, subject: Subject<'_>, pick: impl Fn(&'a T) -> Option<U>) -> Option<U> {
        let fits = |applies: &AppliesTo| {
            let is_here = applies.profile.as_deref().is_none_or(|profile| subject.profile == Some(profile));
            is_here && applies.pattern.matches(subject.canonical)
        };
        self.0.iter().filter(|(applies, _)| fits(applies)).find_map(|(_, settings)| pick(settings))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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

    #[derive(Default)]
    struct Example {
        a: Option<u32>,
        b: Option<u32>,
    }

    #[test]
    fn the_most_specific_rule_that_sets_a_value_decides() {
        let rule = |profile: Option<&str>, pattern: &str, a, b| {
            (
                AppliesTo { profile: profile.map(str::to_owned), pattern: Pattern::new(pattern) },
                Example { a, b },
            )
        };
        let rules = Rules::new([
            rule(None, "*", Some(1), Some(10)),
            rule(None, "files:*", Some(2), None),
            rule(None, "files:read", Some(3), None),
            rule(Some("work"), "files:*", Some(4), None),
            rule(Some("work"), "*", None, Some(40)),
            rule(None, "*:list", Some(5), None),
        ]);
        let check = |profile, canonical, expected: (Option<u32>, Option<u32>)| {
            let subject = Subject { profile, canonical };
            let found = (rules.find(subject, |one| one.a), rules.find(subject, |one| one.b));
            assert_eq!(found, expected, "{subject:?}");
        };
        check(None, "files:read", (Some(3), Some(10)));
        check(None, "files:write", (Some(2), Some(10)));
        check(Some("home"), "files:write", (Some(2), Some(10)));
        check(Some("work"), "files:write", (Some(4), Some(40)));
        check(Some("work"), "files:read", (Some(3), Some(40)));
        check(None, "wiki:read", (Some(1), Some(10)));
        check(None, "wiki:list", (Some(5), Some(10)));
        check(None, "files:list", (Some(2), Some(10)));
        let none = Rules::<Example>::default();
        assert_eq!(none.find(Subject { profile: None, canonical: "files:read" }, |one| one.a), None);
    }
}
