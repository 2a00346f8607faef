//! Checks a value against the schema of a Rust type, and says everything that is wrong with it.
//!
//! Our own rather than the `jsonschema` crate: that one brings some 70 crates into every pack and speaks to
//! developers, while this needs only the keywords that `schemars` produces, those between fields, and speaks to models. What it
//! does not know it lets pass; deserialization has the last word anyway.

mod across;
mod clamp;
mod forms;
pub(crate) mod limits;
mod object;
mod scalar;
mod words;

use std::collections::HashMap;

use regex_lite::Regex;
use serde_json::{Map, Value};

use crate::schema::CLAMP;
use crate::{Problems, schema};

pub(crate) use words::cut;

/// References that lead to references end here.
const DEEPEST: usize = 64;
/// A condition is as deep as this many references, since each has several branches.
const CONDITION: usize = 16;

/// A schema that is ready to check values.
#[derive(Debug)]
pub(crate) struct Checker {
    schema: Value,
    patterns: HashMap<String, Regex>,
}

impl Checker {
    /// Panics on a pattern that is not a regular expression: the tool could never be called.
    pub(crate) fn new(mut schema: Value) -> Self {
        let mut patterns = HashMap::new();
        schema::each(&mut schema, |keywords| {
            limits::narrow(keywords);
            collect_patterns(keywords, &mut patterns);
        });
        Self { schema, patterns }
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// The schema as clients see it: what is clamped is no condition for them, but worth saying.
    pub(crate) fn published(&self) -> Value {
        let mut schema = self.schema.clone();
        schema::each(&mut schema, clamp::publish);
        schema
    }

    /// Puts numbers right that were meant well.
    pub(crate) fn clamp(&self, value: &mut Value) {
        clamp::apply(self, &self.schema, value, 0);
    }

    pub(crate) fn check(&self, value: &Value) -> Problems {
        let mut problems = Problems::default();
        self.visit(&self.schema, value, &At::root(), &mut problems);
        problems
    }

    /// Whether a value fits a part of the schema.
    fn fits(&self, schema: &Value, value: &Value, at: &At<'_>) -> bool {
        let mut problems = Problems::default();
        self.visit(schema, value, at, &mut problems);
        problems.is_empty()
    }

    fn visit(&self, schema: &Value, value: &Value, at: &At<'_>, problems: &mut Problems) {
        let Value::Object(keywords) = schema else {
            if *schema == Value::Bool(false) {
                problems.add(&at.path(), "must not be there");
            }
            return;
        };
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str).and_then(|name| self.resolve(name))
            && at.depth < DEEPEST
        {
            self.visit(target, value, &at.deeper(1), problems);
        }
        if !scalar::fits_type(keywords, value) {
            return problems.add(&at.path(), words::wrong_type(keywords, value));
        }
        scalar::check(self, keywords, value, at, problems);
        object::check(self, keywords, value, at, problems);
        forms::check(self, keywords, value, at, problems);
        across::check(self, keywords, value, at, problems);
    }

    fn resolve(&self, reference: &str) -> Option<&Value> {
        let pointer = reference.strip_prefix('#')?;
        if pointer.is_empty() { Some(&self.schema) } else { self.schema.pointer(pointer) }
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

/// Where in the value we are.
pub(crate) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
    depth: usize,
}

enum Step<'a> {
    Root,
    Same,
    Field(&'a str),
    Item(usize),
}

impl<'a> At<'a> {
    fn root() -> Self {
        Self { parent: None, step: Step::Root, depth: 0 }
    }

    fn deeper(&'a self, by: usize) -> At<'a> {
        Self { parent: Some(self), step: Step::Same, depth: self.depth + by }
    }

    fn field(&'a self, name: &'a str) -> At<'a> {
        Self { parent: Some(self), step: Step::Field(name), depth: 0 }
    }

    fn item(&'a self, index: usize) -> At<'a> {
        Self { parent: Some(self), step: Step::Item(index), depth: 0 }
    }

    /// As a model would write it: `filter.tags[2]`.
    fn path(&self) -> String {
        let mut path = self.parent.map(At::inner_path).unwrap_or_default();
        self.append(&mut path);
        if path.is_empty() { "arguments".into() } else { path }
    }

    fn inner_path(&self) -> String {
        let mut path = self.parent.map(At::inner_path).unwrap_or_default();
        self.append(&mut path);
        path
    }

    fn append(&self, path: &mut String) {
        match self.step {
            Step::Root | Step::Same => {}
            Step::Field(name) if path.is_empty() => path.push_str(&words::short(name)),
            Step::Field(name) => path.extend([".", &words::short(name)]),
            Step::Item(index) => path.extend(["[", &index.to_string(), "]"]),
        }
    }
}

fn is_clamped(keywords: &Map<String, Value>) -> bool {
    keywords.get(CLAMP) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests;
