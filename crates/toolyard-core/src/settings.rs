//! Settings that differ by profile, upstream and tool. A setting is given by rules, each for a pattern over
//! canonical ids (`files:read_*`) and perhaps for one profile; of the rules that fit and set a value, the most
//! specific one decides. Rules are compiled once, when the configuration is read.

use std::cmp::Reverse;

pub use toolyard_proto::Pattern;

/// The subjects to which a rule applies.
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

    /// The value that `pick` takes from the most specific rule that sets it.
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
