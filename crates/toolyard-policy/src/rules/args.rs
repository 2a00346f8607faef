//! Conditions on single arguments.

use std::path::{Component, Path};

use serde_json::Value;

use super::glob;

/// What must hold for one argument.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Test {
    pub equals: Option<Value>,
    pub one_of: Option<Vec<Value>>,
    pub starts_with: Option<String>,
    /// A pattern with `*` for the whole text.
    pub matches: Option<String>,
    /// A folder: the argument is a path to it or below it, and has no `..`.
    pub below: Option<String>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// Whether it is given at all.
    pub exists: Option<bool>,
}

impl Test {
    /// Whether everything holds. Of an argument that is not given, only `exists = false` does.
    pub fn holds(&self, value: Option<&Value>) -> bool {
        if self.exists.is_some_and(|exists| exists != value.is_some()) {
            return false;
        }
        let Some(value) = value else { return *self == Self { exists: Some(false), ..Self::default() } };
        let text = || value.as_str();
        let number = || value.as_f64();
        self.equals.as_ref().is_none_or(|wanted| same(wanted, value))
            && self.one_of.as_ref().is_none_or(|some| some.iter().any(|wanted| same(wanted, value)))
            && self.starts_with.as_ref().is_none_or(|head| text().is_some_and(|text| text.starts_with(head)))
            && self.matches.as_ref().is_none_or(|pattern| text().is_some_and(|text| glob(pattern, text)))
            && self.below.as_ref().is_none_or(|folder| text().is_some_and(|text| is_below(folder, text)))
            && self.min.is_none_or(|least| number().is_some_and(|number| number >= least))
            && self.max.is_none_or(|most| number().is_some_and(|number| number <= most))
    }
}

/// `1` and `1.0` are the same number.
fn same(one: &Value, other: &Value) -> bool {
    crate::canonical::canonical(one) == crate::canonical::canonical(other)
}

fn is_below(folder: &str, path: &str) -> bool {
    let path = Path::new(path);
    path.starts_with(folder) && path.components().all(|part| part != Component::ParentDir)
}
