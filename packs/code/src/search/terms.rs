//! A query of parts that `AND`, `OR` and `NOT` join: `retry AND backoff OR wait NOT test`.

use std::collections::HashSet;

/// Parts that must all be there, and parts that must not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Alternative {
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

/// Alternatives, of which one must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms(Vec<Alternative>);

impl Terms {
    /// Operators are written in capitals. A query without one is a single part.
    pub(crate) fn parse(query: &str) -> Self {
        let mut alternatives = vec![Alternative::default()];
        let (mut part, mut is_unwanted) = (Vec::new(), false);
        for word in query.split_whitespace().chain(["AND"]) {
            if !["AND", "OR", "NOT"].contains(&word) {
                part.push(word);
                continue;
            }
            if let Some(last) = alternatives.last_mut().filter(|_| !part.is_empty()) {
                let list = if is_unwanted { &mut last.unwanted } else { &mut last.wanted };
                list.push(part.join(" "));
                part.clear();
                is_unwanted = false;
            }
            is_unwanted |= word == "NOT";
            if word == "OR" {
                alternatives.push(Alternative::default());
            }
        }
        alternatives.retain(|one| *one != Alternative::default());
        Self(alternatives)
    }

    /// The parts that a result should have, each once.
    pub(crate) fn wanted(&self) -> Vec<&str> {
        distinct(self.0.iter().flat_map(|one| &one.wanted))
    }

    /// All parts, each once.
    pub(crate) fn parts(&self) -> Vec<&str> {
        distinct(self.0.iter().flat_map(|one| one.wanted.iter().chain(&one.unwanted)))
    }

    /// Whether something fits that has just the parts for which `has` holds.
    pub(crate) fn hold(&self, has: impl Fn(&str) -> bool) -> bool {
        let holds = |one: &Alternative| {
            one.wanted.iter().all(|part| has(part)) && !one.unwanted.iter().any(|part| has(part))
        };
        self.0.iter().any(holds)
    }
}

fn distinct<'a>(parts: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    parts.map(String::as_str).filter(|part| seen.insert(*part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, has: &[&str], expected: bool) {
        assert_eq!(Terms::parse(query).hold(|part| has.contains(&part)), expected, "{query} with {has:?}");
    }

    #[test]
    fn operators_mean_what_they_mean_elsewhere() {
        check("open file AND close socket", &["open file"], false);
        check("open file AND close socket", &["open file", "close socket"], true);
        check("retry OR backoff", &["backoff"], true);
        check("a AND b OR c", &["c"], true);
        check("a AND b OR c", &["a"], false);
        check("parse NOT test", &["parse"], true);
        check("parse NOT test", &["parse", "test"], false);
        check("a AND NOT b", &["a"], true);
        check("a AND NOT b", &["a", "b"], false);
        check("plain words", &["plain words"], true);
        check("AND", &[], false);
        assert_eq!(Terms::parse("a NOT b OR a AND c").wanted(), ["a", "c"]);
        assert_eq!(Terms::parse("a NOT b OR a AND c").parts(), ["a", "b", "c"]);
    }
}
