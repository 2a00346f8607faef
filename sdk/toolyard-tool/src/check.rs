//! Checks a value against the schema of a Rust type, and reports everything that is wrong with it.
//!
//! Our own rather than the `jsonschema` crate: that one brings some 70 crates into every pack and its messages are for
//! developers, while this needs only the keywords that `schemars` produces and those between fields, and its messages are
//! for models. A schema with a condition that cannot be checked is refused when the set is built (`known`).

mod across;
mod at;
mod because;
mod clamp;
mod forms;
mod known;
pub(crate) mod limits;
mod object;
mod scalar;
mod describe;
mod words;

use std::collections::HashMap;

use regex_lite::Regex;
use serde_json::{Map, Value};

use crate::schema::CLAMP;
use crate::{Problems, schema};

pub(crate) use at::TooManyWays;
use at::{At, Budget};
pub(crate) use words::cut;

/// A schema that is ready to check values.
#[derive(Debug)]
pub(crate) struct Checker {
    schema: Value,
    patterns: HashMap<String, Regex>,
    /// How many schemas it is made of.
    size: usize,
}

impl Checker {
    /// Panics on a pattern that is not a regular expression, and on a condition that cannot be checked: the tool would be
    /// called with arguments that its author has ruled out, or never.
    pub(crate) fn new(mut schema: Value) -> Self {
        let (mut patterns, mut size) = (HashMap::new(), 0);
        known::check(&mut schema);
        schema::each(&mut schema, |keywords| {
            size += 1;
            limits::narrow(keywords);
            collect_patterns(keywords, &mut patterns);
        });
        Self { schema, patterns, size }
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// The schema as clients see it: clamped ranges and conditions that clients would refuse are moved into
    /// descriptions.
    pub(crate) fn published(&self) -> Value {
        let mut schema = self.schema.clone();
        schema::each(&mut schema, clamp::publish);
        describe::conditions_in_words(&mut schema);
        schema
    }

    /// Clamps numbers, and makes `5.0` an integer where one is needed.
    pub(crate) fn clamp(&self, value: &mut Value) -> Result<(), TooManyWays> {
        let budget = Budget::new(self.size, value);
        clamp::apply(self, &self.schema, value, &At::root(&budget));
        budget.is_kept()
    }

    pub(crate) fn check(&self, value: &Value) -> Result<Problems, TooManyWays> {
        let (budget, mut problems) = (Budget::new(self.size, value), Problems::default());
        self.visit(&self.schema, value, &At::root(&budget), &mut problems);
        budget.is_kept().map(|()| problems)
    }

    /// Whether a value fits a part of the schema.
    fn fits(&self, schema: &Value, value: &Value, at: &At<'_>) -> bool {
        self.found(schema, value, at).is_empty()
    }

    /// The problems of a value by a part of the schema.
    fn found(&self, schema: &Value, value: &Value, at: &At<'_>) -> Problems {
        let mut problems = Problems::default();
        self.visit(schema, value, at, &mut problems);
        problems
    }

    fn visit(&self, schema: &Value, value: &Value, at: &At<'_>, problems: &mut Problems) {
        if !at.may_look(value) {
            return;
        }
        let Value::Object(keywords) = schema else {
            if *schema == Value::Bool(false) {
                at.blame(problems, "is not allowed here");
            }
            return;
        };
        if let Some(target) = self.target(keywords) {
            self.visit(target, value, &at.deeper(), problems);
        }
        if !scalar::fits_type(keywords, value) {
            return at.blame(problems, words::wrong_type(keywords, value));
        }
        scalar::check(self, keywords, value, at, problems);
        object::check(self, keywords, value, at, problems);
        let absent = across::absent(self, keywords, value, at);
        let at = at.without(&absent);
        forms::check(self, keywords, value, &at, problems);
        across::check(self, keywords, value, &at, problems);
    }

    /// The schema that a schema refers to.
    fn target(&self, keywords: &Map<String, Value>) -> Option<&Value> {
        known::target(&self.schema, keywords.get("$ref")?.as_str()?)
    }

    fn pattern(&self, text: &str) -> Option<&Regex> {
        self.patterns.get(text)
    }
}

/// The patterns of texts, and of the names in maps.
fn collect_patterns(keywords: &Map<String, Value>, patterns: &mut HashMap<String, Regex>) {
    let names = keywords.get("patternProperties").and_then(Value::as_object);
    let names = names.into_iter().flatten().map(|(name, _)| name.as_str());
    for text in keywords.get("pattern").and_then(Value::as_str).into_iter().chain(names) {
        let regex = Regex::new(text)
            .unwrap_or_else(|error| panic!("the pattern `{text}` of a field is not valid: {error}"));
        patterns.insert(text.to_owned(), regex);
    }
}

fn is_clamped(keywords: &Map<String, Value>) -> bool {
    keywords.get(CLAMP) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests;
