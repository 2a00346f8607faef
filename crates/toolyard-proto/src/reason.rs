//! Why something failed, kept in parts: what was attempted, the cause, and what to do about it. Every place that
//! shows a failure chooses the parts it needs; no code takes a rendered sentence apart.

use std::fmt;

/// A failure with its cause and a hint. [`Display`](fmt::Display) renders all of it as one line. One pointer wide, so
/// that errors stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    /// The noun that `what` is a predicate of, such as "upstream `files`".
    subject: Option<String>,
    what: String,
    cause: Option<String>,
    /// The last lines that a process wrote to stderr, which not every reader may see.
    stderr: Option<String>,
    hint: Option<String>,
}

impl Reason {
    /// A complete clause, such as "no answer within 10 s".
    pub fn new(what: impl Into<String>) -> Self {
        Self(Box::new(Parts { subject: None, what: what.into(), cause: None, stderr: None, hint: None }))
    }

    /// A predicate of `subject`, such as "cannot be reached". Places that show the subject themselves use
    /// [`summary`](Self::summary), which leaves it out.
    pub fn of(subject: impl Into<String>, predicate: impl Into<String>) -> Self {
        let mut reason = Self::new(predicate);
        reason.0.subject = Some(subject.into());
        reason
    }

    /// A predicate of the upstream with this name.
    pub fn of_upstream(name: &str, predicate: impl Into<String>) -> Self {
        Self::of(format!("upstream `{name}`"), predicate)
    }

    /// Adds the cause. Causes nest: a second one follows the first.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        let cause = cause.into();
        self.0.cause = Some(match self.0.cause {
            Some(outer) => format!("{outer}: {cause}"),
            None => cause,
        });
        self
    }

    /// Adds another reason as the cause, and takes over its hint.
    #[must_use]
    pub fn caused_by(self, inner: &Self) -> Self {
        let mut outer = self.because(inner.without_stderr().summary());
        outer.0.stderr = outer.0.stderr.or_else(|| inner.0.stderr.clone());
        match inner.hint() {
            Some(hint) => outer.with_hint(hint),
            None => outer,
        }
    }

    /// Adds the last lines that a process wrote to stderr.
    #[must_use]
    pub fn with_stderr(mut self, lines: impl Into<String>) -> Self {
        self.0.stderr = Some(lines.into());
        self
    }

    /// The last lines that a process wrote to stderr, if they are part of the reason.
    pub fn stderr(&self) -> Option<&str> {
        self.0.stderr.as_deref()
    }

    /// The same for readers who may not see stderr output.
    #[must_use]
    pub fn without_stderr(&self) -> Self {
        let mut reason = self.clone();
        reason.0.stderr = None;
        reason
    }

    /// Adds a remark in parentheses.
    #[must_use]
    pub fn noting(mut self, remark: &str) -> Self {
        let last = self.0.cause.as_mut().unwrap_or(&mut self.0.what);
        *last = format!("{last} ({remark})");
        self
    }

    /// Sets what to do about it; an earlier hint is replaced.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the hint where there is none yet.
    #[must_use]
    pub fn or_hint(self, hint: impl Into<String>) -> Self {
        if self.0.hint.is_some() { self } else { self.with_hint(hint) }
    }

    #[must_use]
    pub fn without_hint(mut self) -> Self {
        self.0.hint = None;
        self
    }

    /// Whether this is a predicate that needs a subject, rather than a complete clause.
    pub fn is_predicate(&self) -> bool {
        self.0.subject.is_some()
    }

    /// The hint: what to do about the failure.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The failure and its cause, without the subject and without the hint.
    pub fn summary(&self) -> String {
        let Parts { what, cause, stderr, .. } = &*self.0;
        let what = cause.as_ref().map_or_else(|| what.clone(), |cause| format!("{what}: {cause}"));
        stderr.as_ref().map_or_else(|| what.clone(), |lines| format!("{what}: stderr: {lines}"))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(subject) = &self.0.subject {
            write!(f, "{subject} ")?;
        }
        f.write_str(&self.summary())?;
        match &self.0.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl From<String> for Reason {
    fn from(what: String) -> Self {
        Self::new(what)
    }
}

impl From<&str> for Reason {
    fn from(what: &str) -> Self {
        Self::new(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_rendered_in_order() {
        let reason = Reason::of_upstream("far", "cannot be reached")
            .because("connection refused")
            .with_hint("check that it is running");
        assert_eq!(
            reason.to_string(),
            "upstream `far` cannot be reached: connection refused; check that it is running"
        );
        assert_eq!(reason.summary(), "cannot be reached: connection refused");
        assert_eq!(reason.hint(), Some("check that it is running"));
    }

    #[test]
    fn a_plain_text_is_a_complete_clause() {
        let reason = Reason::from("it is starting").or_hint("wait").or_hint("do something else");
        assert_eq!((reason.to_string().as_str(), reason.is_predicate()), ("it is starting; wait", false));
    }

    #[test]
    fn stderr_output_is_the_last_cause_and_can_be_left_out() {
        let ended = Reason::of_upstream("files", "exited with status 3").with_stderr("no such file");
        let reason =
            Reason::new("`tools/list` failed").caused_by(&ended).noting("twice").with_hint("check it");
        assert_eq!(
            reason.to_string(),
            "`tools/list` failed: exited with status 3 (twice): stderr: no such file; check it"
        );
        let shown = reason.without_stderr();
        assert_eq!(shown.to_string(), "`tools/list` failed: exited with status 3 (twice); check it");
        assert_eq!((reason.stderr(), shown.stderr()), (Some("no such file"), None));
    }

    #[test]
    fn causes_nest() {
        assert_eq!(Reason::new("a").because("b").because("c").summary(), "a: b: c");
    }
}
