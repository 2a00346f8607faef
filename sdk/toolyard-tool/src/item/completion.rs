//! Suggestions for an argument of a prompt, or for a variable of a template.

use std::collections::BTreeMap;

use serde_json::json;
use toolyard_proto::Raw;

use super::Entry;
use crate::run::{Call, Runner, runner};
use crate::state::{Source, Wanted};

/// More suggestions than this are not sent.
const MOST: usize = 100;

/// The text that the user has typed so far.
///
/// ```
/// # use toolyard_tool::{Typed, tool};
/// /// Cities of the country that was chosen.
/// #[tool(completes = "travel", argument = "city")]
/// async fn cities(typed: Typed) -> Vec<String> {
///     let all = match typed.others.get("country").map(String::as_str) {
///         Some("Italy") => ["Rome", "Milan"],
///         _ => ["Paris", "Lyon"],
///     };
///     all.into_iter().filter(|city| city.starts_with(&typed.text)).map(Into::into).collect()
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Typed {
    /// The beginning of the value.
    pub text: String,
    /// The other arguments, as far as they are known.
    pub others: BTreeMap<String, String>,
}

/// The attribute's data about a function.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct AboutCompletion {
    /// The name of a prompt, or the URI of a template.
    pub of: &'static str,
    /// Which argument or variable.
    pub argument: &'static str,
}

/// The return value of a function under `#[tool(completes = …)]`: a list of texts, best first, or a `Result` of
/// that.
///
/// ```
/// use toolyard_tool::Suggestions;
///
/// assert_eq!(vec!["a".to_owned()].into_suggestions(), ["a"]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be suggestions",
    label = "not a list of texts",
    note = "return `Vec<String>`, or a `Result` of that"
)]
pub trait Suggestions: Send + 'static {
    /// The suggestions themselves.
    fn into_suggestions(self) -> Vec<String>;
}

impl Suggestions for Vec<String> {
    fn into_suggestions(self) -> Vec<String> {
        self
    }
}

impl Suggestions for Vec<&'static str> {
    fn into_suggestions(self) -> Vec<String> {
        self.into_iter().map(str::to_owned).collect()
    }
}

/// Suggestions of a set.
#[doc(hidden)]
pub struct Completion {
    pub(crate) about: AboutCompletion,
    pub(crate) complete: Runner<Typed, Raw>,
}

/// Makes suggestions from a function. Called by the attribute's code.
#[doc(hidden)]
pub fn completion<W: Wanted, O: Suggestions>(
    about: AboutCompletion,
    source: Source<W>,
    call: Call<W, Typed, O>,
) -> Entry {
    let complete = runner(about.of, source, call, Ok, |output: O| Ok(render(output.into_suggestions())));
    Entry::Completion(Completion { about, complete })
}

pub(crate) fn render(mut values: Vec<String>) -> Raw {
    let total = values.len();
    values.truncate(MOST);
    json!({ "completion": { "values": values, "total": total, "hasMore": total > MOST } }).into()
}

impl std::fmt::Debug for Completion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Completion({} {})", self.about.of, self.about.argument)
    }
}
