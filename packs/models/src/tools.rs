//! The tools that clients call.

pub(crate) mod ask;
pub(crate) mod cost;
pub(crate) mod gemini;
pub(crate) mod openai;
pub(crate) mod sampling;
pub(crate) mod with_tools;

use schemars::JsonSchema;
use serde::Serialize;

use crate::conversation::Usage;
use crate::models::Answered;

/// An answer with a text of its own.
pub(crate) use toolyard_tool::WithText;

/// What a model answered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// What the model thought first, as far as the provider shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<String>,
    pub(crate) provider: String,
    pub(crate) model: String,
    /// `login`, `key` or `none`.
    pub(crate) auth: String,
    /// Tokens; missing if the provider does not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Usage>,
    /// What it cost; missing if the price or the tokens are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<f64>,
    /// Why the answer ended, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<String>,
}

impl From<Answered> for Answer {
    fn from(answered: Answered) -> Self {
        let Answered { reply, provider, model, auth, usage, cost } = answered;
        let thinking = (!reply.thinking.is_empty()).then_some(reply.thinking);
        Self {
            text: reply.text,
            thinking,
            provider,
            model,
            auth: auth.to_owned(),
            usage,
            cost,
            stop: reply.stop,
        }
    }
}

impl Answer {
    /// The text, after the thoughts if there are any.
    pub(crate) fn readable(&self) -> String {
        match &self.thinking {
            Some(thinking) => format!("<thinking>{thinking}</thinking>\n\n{}", self.text),
            None => self.text.clone(),
        }
    }

    /// The same below a line about the credential and the model.
    pub(crate) fn with_head(&self) -> String {
        format!("[Auth: {} | Model: {}]\n\n{}", self.auth, self.model, self.readable())
    }
}

/// The defaults of several tools.
pub(crate) fn temperature() -> f64 {
    0.7
}
