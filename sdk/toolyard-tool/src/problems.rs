//! The problems of the arguments of a call, in words that a model can act on.

use crate::ToolError;
use crate::pack::Wrong;

/// The problems of some arguments. Checks add to it and go on, so that one answer names everything.
///
/// ```
/// use toolyard_tool::Problems;
///
/// struct Range { from: u32, to: u32 }
///
/// fn check(range: &Range, problems: &mut Problems) {
///     if range.from > range.to {
///         problems.add("from", format!("must not be greater than `to` ({})", range.to));
///     }
/// }
/// ```
///
/// The first 20 are kept: after a thousand wrong items, the rest would not help.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problems {
    wrongs: Vec<Wrong>,
    has_more: bool,
}

/// More than this are not listed.
const MOST: usize = 20;

impl Problems {
    /// Adds a problem of `field`: "`field` what".
    pub fn add(&mut self, field: &str, what: impl AsRef<str>) {
        self.push(|| Wrong { key: field.to_owned(), what: what.as_ref().to_owned() });
    }

    /// Adds a problem that concerns no single field.
    pub fn add_general(&mut self, what: impl Into<String>) {
        self.push(|| Wrong { key: String::new(), what: what.into() });
    }

    /// Whether there are no problems.
    pub fn is_empty(&self) -> bool {
        self.wrongs.is_empty()
    }

    fn push(&mut self, wrong: impl FnOnce() -> Wrong) {
        if self.wrongs.len() < MOST {
            self.wrongs.push(wrong());
        } else {
            self.has_more = true;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.wrongs.len()
    }

    /// Whether there are more problems than will be listed, so that further checks are useless.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    pub(crate) fn extend(&mut self, other: Self) {
        for wrong in other.wrongs {
            self.push(|| wrong);
        }
        self.has_more |= other.has_more;
    }

    /// The same problems with another wording.
    pub(crate) fn reworded(mut self, words: impl Fn(&str) -> String) -> Self {
        for wrong in &mut self.wrongs {
            wrong.what = words(&wrong.what);
        }
        self
    }

    pub(crate) fn into_wrongs(self) -> Vec<Wrong> {
        self.wrongs
    }

    /// One error that lists the problems, if there are any.
    pub(crate) fn into_result(self) -> Result<(), ToolError> {
        let hint = "correct this and call again; the tool's input schema describes its arguments";
        self.summary("The arguments are", "The arguments have")
            .map_or(Ok(()), |message| Err(ToolError::invalid(message).hint(hint)))
    }

    /// The same for a form that a user has filled in, so the model is not to blame.
    pub(crate) fn into_result_of_form(self) -> Result<(), ToolError> {
        let summary = self.summary("What the user entered is", "What the user entered has");
        summary.map_or(Ok(()), |message| Err(ToolError::new(message).hint("tell the user, and call again")))
    }

    fn summary(self, is: &str, has: &str) -> Option<String> {
        let count = match self.wrongs.as_slice() {
            [] => return None,
            [one] => return Some(format!("{is} not valid: {one}.")),
            all if self.has_more => format!("more than {} problems; the first are", all.len()),
            all => format!("{} problems", all.len()),
        };
        let list: Vec<String> = self.wrongs.iter().map(ToString::to_string).collect();
        Some(format!("{has} {count}:\n- {}", list.join("\n- ")))
    }
}
