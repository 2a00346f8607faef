//! Conditions on single arguments.

use std::path::{Component, Path};

use serde_json::Value;

use super::glob;
use crate::canonical::canonical;

/// The conditions on one argument.
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

/// Whether two values have the same canonical text, so that `1` and `1.0` are the same number. Simple values are compared
/// without it: most tests are about them, and each call may meet many tests.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::String(one), Value::String(other)) => one == other,
        (Value::Number(a), Value::Number(b)) if !a.is_f64() && !b.is_f64() => a == b,
        (Value::Number(_), Value::Number(_))
        | (Value::Array(_), Value::Array(_))
        | (Value::Object(_), Value::Object(_)) => canonical(one) == canonical(other),
        _ => false,
    }
}

fn is_below(folder: &str, path: &str) -> bool {
    let path = Path::new(path);
    path.starts_with(folder) && path.components().all(|part| part != Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_the_same_exactly_if_their_canonical_texts_are() {
        let large = 9_007_199_254_740_993_u64;
        let values = [
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(-0.0),
            json!(1),
            json!(1.0),
            json!(-1),
            json!(1.5),
            json!(large),
            json!(9_007_199_254_740_993_f64),
            json!(u64::MAX),
            json!("1"),
            json!("null"),
            json!("\u{e9}"),
            json!([1]),
            json!([1.0]),
            json!({ "a": 1, "b": [] }),
            json!({ "b": [], "a": 1.0 }),
        ];
        for one in &values {
            for other in &values {
                assert_eq!(same(one, other), canonical(one) == canonical(other), "{one} and {other}");
            }
        }
    }
}
