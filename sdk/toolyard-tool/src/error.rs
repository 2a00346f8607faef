//! The error of a tool: a message, and a hint what to do instead.

use std::fmt;

use serde_json::json;
use toolyard_proto::error::code;
use toolyard_proto::{CallError, Raw, Revision, RpcError};

/// Why a tool failed.
///
/// It reaches the model as a result with `isError`, so write it for a reader who can try again: what
/// happened, and what would work. Every type that implements [`std::error::Error`] becomes one with `?`; its
/// causes are kept in the text. `anyhow::Error` and `Box<dyn Error>` do not implement it: for them write
/// `.map_err(|error| ToolError::new(format!("{error:#}")))?`.
///
/// ```
/// use toolyard_tool::ToolError;
///
/// fn read(path: &str) -> Result<String, ToolError> {
///     if path.is_empty() {
///         return Err(ToolError::new("no path was given").hint("pass an absolute path"));
///     }
///     Ok(std::fs::read_to_string(path)?)
/// }
///
/// assert_eq!(read("").unwrap_err().to_string(), "no path was given\nHint: pass an absolute path");
/// ```
#[derive(Clone, PartialEq)]
pub struct ToolError {
    message: String,
    hint: Option<String>,
    /// Sets the text that the log shows instead of the message.
    logged: Option<String>,
    kind: Kind,
}

/// The errors that a function may return. A trait of its own, so that the compiler's message about any other type is
/// helpful.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a tool cannot fail with `{Self}`: it is not a `ToolError`, and does not become one",
    label = "not an error that a tool may give",
    note = "fail with `ToolError::new(…)`, or implement `std::error::Error` for `{Self}`"
)]
pub trait Failure {
    /// In words for a model.
    fn into_tool_error(self) -> ToolError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<ToolError>> Failure for E {
    fn into_tool_error(self) -> ToolError {
        self.into()
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// The tool ran and failed.
    Failed,
    /// There is nothing of that name.
    NotFound,
    /// The arguments are invalid.
    Invalid,
    /// The request itself cannot be carried out: an error of the protocol rather than a result.
    Fatal,
    /// The client lacks the capability with this path.
    Needs(Vec<&'static str>),
    /// The function panicked.
    Broken,
    /// The request is malformed.
    Malformed,
    /// The client must answer first; this is the result that asks it.
    Unanswered(Raw),
}

impl ToolError {
    /// An error with a message for the model.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, logged: None, kind: Kind::Failed }
    }

    /// Something that was named does not exist. For resources this becomes the protocol's own error.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { kind: Kind::NotFound, ..Self::new(message) }
    }

    /// An error of the protocol instead of a result: the model never sees it, the client does. For the rare
    /// case that trying again with other arguments cannot help.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { kind: Kind::Fatal, ..Self::new(message) }
    }

    /// Adds what to do instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the text that the log shows instead of the message, where the message may quote what the caller sent.
    ///
    /// ```
    /// # use toolyard_tool::ToolError;
    /// let error = ToolError::new("refused: \"a private text\"").logged_as("refused");
    /// assert_eq!(error.to_string(), "refused: \"a private text\"");
    /// ```
    #[must_use]
    pub fn logged_as(mut self, text: impl Into<String>) -> Self {
        self.logged = Some(text.into());
        self
    }

    /// The text that the log shows.
    pub(crate) fn log_message(&self) -> &str {
        self.logged.as_deref().unwrap_or(&self.message)
    }

    /// The message, without the hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The client lacks a required capability. Questions fail with this by themselves; return it earlier to avoid
    /// work whose result would be lost.
    ///
    /// ```
    /// # use toolyard_tool::{Context, ToolError};
    /// fn before_the_work(context: &Context) -> Result<(), ToolError> {
    ///     if context.can_sample() { Ok(()) } else { Err(ToolError::needs_capability("sampling")) }
    /// }
    /// ```
    pub fn needs_capability(name: &'static str) -> Self {
        Self::needs(&[name])
    }

    /// The same for a capability within another.
    pub(crate) fn needs(path: &[&'static str]) -> Self {
        let name = path.join(".");
        let message = format!("this needs `{name}`, which the client does not declare");
        Self { kind: Kind::Needs(path.to_vec()), ..Self::new(message) }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { kind: Kind::Invalid, ..Self::new(message) }
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self { kind: Kind::Malformed, ..Self::new(message) }
    }

    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self { kind: Kind::Broken, ..Self::new(message) }
    }

    /// Whether the function ran and failed.
    pub(crate) fn is_failure(&self) -> bool {
        self.kind == Kind::Failed
    }

    pub(crate) fn unanswered(asks: Raw) -> Self {
        Self { kind: Kind::Unanswered(asks), ..Self::new("the client must answer some questions first") }
    }

    /// The result with the questions for the client, if the error is one.
    pub(crate) fn asks(&self) -> Option<&Raw> {
        match &self.kind {
            Kind::Unanswered(asks) => Some(asks),
            _ => None,
        }
    }

    /// Whether a client of `revision` gets this as an error of the protocol rather than as a result. Missing
    /// capabilities have an error of their own in revisions where each request declares them.
    pub(crate) fn is_fatal(&self, revision: Revision) -> bool {
        match self.kind {
            Kind::Fatal | Kind::Malformed => true,
            Kind::Needs(_) => revision.has_result_stamps(),
            Kind::Failed | Kind::NotFound | Kind::Invalid | Kind::Broken | Kind::Unanswered(_) => false,
        }
    }

    /// For requests that have no `isError`: resources, prompts, completions.
    pub(crate) fn to_call_error(&self) -> CallError {
        let number = match &self.kind {
            Kind::NotFound | Kind::Invalid | Kind::Malformed => code::INVALID_PARAMS,
            Kind::Failed | Kind::Fatal | Kind::Broken | Kind::Unanswered(_) => code::INTERNAL,
            Kind::Needs(path) => {
                let required = path.iter().rfold(json!({}), |inner, name| json!({ *name: inner }));
                return CallError::missing_capability(required.into(), self.to_string());
            }
        };
        CallError::reported(RpcError::new(number, self.to_string()).to_raw())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nHint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolError({self})")
    }
}

/// `ToolError` is not an error type itself: that would forbid this conversion, which makes `?` work.
impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let text = inner.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = inner.source();
        }
        Self::new(message)
    }
}
