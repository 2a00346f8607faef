//! The position in the value, and the remaining budget of comparisons.

use std::cell::Cell;

use serde_json::Value;

use super::words;
use crate::{Problems, ToolError};

/// The limit of nested schemas for one value.
const DEEPEST: usize = 64;
/// The budget for even the smallest value.
const LOOKS: usize = 10_000;
/// The budget for each part of a value, whatever the schema: a million parts should not take minutes.
const MOST_PER_PART: usize = 512;

/// The position in the value.
pub(crate) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
    depth: usize,
    /// Null fields of this object, which count as not given.
    absent: &'a [&'a str],
    budget: &'a Budget,
}

enum Step<'a> {
    Root,
    Same,
    Field(&'a str),
    Item(usize),
}

impl<'a> At<'a> {
    pub(super) fn root(budget: &'a Budget) -> Self {
        Self { parent: None, step: Step::Root, depth: 0, absent: &[], budget }
    }

    /// The same place, as another schema sees it.
    pub(super) fn deeper(&'a self) -> At<'a> {
        Self { step: Step::Same, depth: self.depth + 1, parent: Some(self), ..*self }
    }

    /// The same position with some fields counted as not given.
    pub(super) fn without(&'a self, absent: &'a [&'a str]) -> At<'a> {
        Self { step: Step::Same, parent: Some(self), absent, ..*self }
    }

    pub(super) fn field(&'a self, name: &'a str) -> At<'a> {
        self.below(Step::Field(name))
    }

    pub(super) fn item(&'a self, index: usize) -> At<'a> {
        self.below(Step::Item(index))
    }

    fn below(&'a self, step: Step<'a>) -> At<'a> {
        Self { parent: Some(self), step, depth: 0, absent: &[], budget: self.budget }
    }

    pub(super) fn absent(&self) -> &'a [&'a str] {
        self.absent
    }

    /// Whether a field that is there counts as given.
    pub(super) fn is_given(&self, name: &str) -> bool {
        !self.absent.contains(&name)
    }

    pub(super) fn budget(&self) -> &'a Budget {
        self.budget
    }

    /// Whether the budget allows another look at `value`.
    pub(super) fn may_look(&self, value: &Value) -> bool {
        if self.depth > DEEPEST {
            self.budget.spend_all();
        }
        self.budget.spend(1 + value.as_object().map_or(0, serde_json::Map::len))
    }

    /// The path as a model would write it: `filter.tags[2]`; empty for the whole value.
    pub(super) fn path(&self) -> String {
        let mut path = self.parent.map(At::path).unwrap_or_default();
        match self.step {
            Step::Root | Step::Same => {}
            Step::Field(name) if path.is_empty() => path.push_str(&words::short(name)),
            Step::Field(name) => path.extend([".", &words::short(name)]),
            Step::Item(index) => path.extend(["[", &index.to_string(), "]"]),
        }
        path
    }

    /// Reports a problem of this value.
    pub(super) fn blame(&self, problems: &mut Problems, what: impl AsRef<str>) {
        let what = what.as_ref();
        self.blame_or(problems, what, || format!("the whole {what}"));
    }

    /// Adds a problem at this path, or `whole` if the path is empty: the value as a whole has no name.
    pub(super) fn blame_or(&self, problems: &mut Problems, what: &str, whole: impl FnOnce() -> String) {
        match self.path() {
            path if path.is_empty() => problems.add_general(whole()),
            path => problems.add(&path, what),
        }
    }
}

/// How many comparisons a check may take. Nested alternatives and conditions can double that number
/// with every level of a value, so a client could otherwise choose how long a check runs.
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    /// Enough for any value that is not crafted to take long: every schema may see every part several times.
    pub(super) fn new(schemas: usize, value: &Value) -> Self {
        let each = (16 + 4 * schemas).min(MOST_PER_PART);
        Self(Cell::new(parts(value).saturating_mul(each).saturating_add(LOOKS)))
    }

    /// Takes so much from the budget; returns whether there was enough.
    pub(super) fn spend(&self, looks: usize) -> bool {
        self.0.set(self.0.get().saturating_sub(looks));
        self.0.get() > 0
    }

    fn spend_all(&self) {
        self.0.set(0);
    }

    pub(super) fn is_kept(&self) -> Result<(), TooManyWays> {
        if self.0.get() > 0 { Ok(()) } else { Err(TooManyWays) }
    }
}

/// How many values a value holds, itself included.
pub(super) fn parts(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(parts).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(parts).sum::<usize>(),
        _ => 1,
    }
}

/// The budget is used up: whether a value fits is not known, and deserializing it would take as long.
#[derive(Debug)]
pub(crate) struct TooManyWays;

impl From<TooManyWays> for Problems {
    fn from(_: TooManyWays) -> Self {
        let mut problems = Self::default();
        problems.add_general("these can be read in too many ways to be checked: use fewer levels");
        problems
    }
}

impl From<TooManyWays> for ToolError {
    fn from(_: TooManyWays) -> Self {
        Self::invalid("The arguments can be read in too many ways to be checked.").hint("use fewer levels")
    }
}
