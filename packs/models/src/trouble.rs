//! Why a model did not answer, and what follows from it: another credential, another attempt, a fallback, or an error.

use std::time::Duration;

use toolyard_tool::ToolError;

use crate::sse::shortened;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    #[error("answered with status {status}: {message}")]
    Status { status: u16, message: String, retry_after: Option<Duration> },
    #[error("ended its answer too early, after {0} bytes")]
    Cut(usize),
    #[error("sent something that is not its protocol: {0}")]
    Garbage(String),
    #[error("sent nothing for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("sent an answer of more than {0} bytes")]
    TooLarge(usize),
    #[error("returned no text ({0})")]
    Empty(String),
    #[error("has no usable credentials: {0}")]
    NoCredential(String),
    #[error("is at its limit: {reason}; try again in {} s", .retry_after.as_secs().max(1))]
    Limited { reason: String, retry_after: Duration },
}

impl Trouble {
    /// The provider wants fewer requests with this credential.
    pub(crate) fn is_rate_limit(&self) -> bool {
        matches!(self, Self::Status { status: 429, .. })
    }

    /// The same request may work a little later.
    pub(crate) fn is_server_side(&self) -> bool {
        matches!(self, Self::Status { status: 500..=599, .. })
    }

    /// Nothing is wrong with the request itself, so another model may answer it.
    pub(crate) fn has_no_response(&self) -> bool {
        self.is_rate_limit()
            || self.is_server_side()
            || matches!(
                self,
                Self::Unreachable(_)
                    | Self::Cut(_)
                    | Self::Garbage(_)
                    | Self::Silent(_)
                    | Self::NoCredential(_)
            )
    }

    /// Providers may quote keys and headers, which must not get any further. The text is shortened only afterwards: a
    /// cut through a key would leave its beginning.
    pub(crate) fn presentable<'a>(mut self, secrets: impl IntoIterator<Item = &'a str>) -> Self {
        if let Self::Status { message: text, .. } | Self::Garbage(text) = &mut self {
            for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
                *text = text.replace(secret, "***");
            }
            *text = shortened(text);
        }
        self
    }

    fn hint(&self, provider: &str) -> String {
        let section = format!("[packs.models.providers.{provider}]");
        match self {
            Self::Unreachable(_) => format!("check the connection and `base_url` in {section}"),
            Self::Status { status: 401 | 403, .. } => format!("check the key or the login in {section}"),
            Self::Status { status: 404, .. } => {
                format!("check the name of the model and `base_url` in {section}")
            }
            Self::Status { status: 429, retry_after: Some(after), .. } => {
                format!("try again in {} s", after.as_secs().max(1))
            }
            Self::Status { status: 429, .. } => {
                format!("try again later, or set both `login` and `key` in {section}")
            }
            Self::Status { status: 500.., .. } | Self::Cut(_) | Self::Silent(_) => {
                "try again later".to_owned()
            }
            Self::Status { .. } => "change the request".to_owned(),
            Self::Garbage(_) => format!("check `kind` and `base_url` in {section}"),
            Self::TooLarge(_) => "ask for a shorter answer".to_owned(),
            Self::Empty(_) => "change the prompt, or raise `max_tokens`".to_owned(),
            Self::NoCredential(_) => format!("set `key`, `key_file` or `login` in {section}"),
            Self::Limited { .. } => "wait, or raise the limit in [packs.models]".to_owned(),
        }
    }

    /// For the model or the person that called a tool.
    pub(crate) fn into_error(self, provider: &str, model: &str) -> ToolError {
        let hint = self.hint(provider);
        let logged = format!("`{model}` of provider `{provider}` {}", self.in_short());
        ToolError::new(format!("`{model}` of provider `{provider}` {self}")).hint(hint).logged_as(logged)
    }

    /// Without the provider's own words, which may quote the prompt.
    fn in_short(&self) -> String {
        match self {
            Self::Status { status, .. } => format!("answered with status {status}"),
            Self::Garbage(_) => "sent something that is not its protocol".to_owned(),
            Self::Empty(_) => "returned no text".to_owned(),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_at_the_cut_of_a_long_message_leaves_nothing() {
        let message = format!("{} the key sk-very-secret is unknown", "x".repeat(104));
        let trouble = Trouble::Status { status: 401, message, retry_after: None };
        let shown = trouble.presentable(["sk-very-secret"]).to_string();
        assert!(!shown.contains("sk-"), "{shown}");
        assert!(shown.ends_with('…') && shown.chars().count() < 160, "{shown}");
    }
}
