//! Everything that is wrong with the arguments of a call, in words a model can act on.

use crate::ToolError;
use crate::pack::Wrong;

/// What is wrong with some arguments. Checks add to it and go on, so that one answer names everything.
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problems(Vec<Wrong>);

impl Problems {
    /// `what` is wrong with `field`: "`field` what".
    pub fn add(&mut self, field: &str, what: impl AsRef<str>) {
        self.0.push(Wrong { key: field.to_owned(), what: what.as_ref().to_owned() });
    }

    /// Something that concerns no single field.
    pub fn add_general(&mut self, what: impl Into<String>) {
        self.0.push(Wrong { key: String::new(), what: what.into() });
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn into_wrongs(self) -> Vec<Wrong> {
        self.0
    }

    /// One error that lists them all; nothing if there are none.
    pub(crate) fn into_result(self) -> Result<(), ToolError> {
        match self.0.as_slice() {
            [] => Ok(()),
            [one] => Err(invalid(format!("The arguments are not valid: {one}."))),
            all => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                let list = all.join("\n- ");
                Err(invalid(format!("The arguments have {} problems:\n- {list}", all.len())))
            }
        }
    }
}

fn invalid(message: String) -> ToolError {
    ToolError::new(message).hint("correct this and call again; the tool's input schema says what it takes")
}
