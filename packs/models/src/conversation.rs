//! What is sent to a model and what comes back, independent of the provider.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One request to a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    /// What the provider calls the model.
    pub(crate) model: String,
    pub(crate) system: Option<String>,
    pub(crate) messages: Vec<Message>,
    pub(crate) temperature: Option<f64>,
    pub(crate) max_tokens: u32,
    /// Tokens to think with; 0 to leave that to the model.
    pub(crate) thinking_budget: u32,
    pub(crate) effort: Option<Effort>,
    pub(crate) stop: Vec<String>,
    pub(crate) tools: Vec<ToolSpec>,
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    User(Vec<Part>),
    Assistant(String),
    /// An answer of the same provider in its own form, so that signatures and encrypted thoughts are kept.
    Echo(Vec<Value>),
    Results(Vec<Outcome>),
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(String),
    Image(Image),
}

/// A picture.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Image {
    /// Such as `image/png`.
    #[serde(rename = "mimeType", alias = "mime_type")]
    pub(crate) mime_type: String,
    /// The bytes in Base64.
    pub(crate) data: String,
}

/// How hard a model should think.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Effort {
    Low,
    Medium,
    High,
}

impl Effort {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A tool that the model may call.
#[derive(Clone, Debug)]
pub(crate) struct ToolSpec {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
}

/// A call that the model wants to make.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// As the model wrote them; not an object if the model made a mistake.
    pub(crate) arguments: Value,
}

/// The result of such a call.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// A part of an answer that is worth showing at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Thought(String),
}

/// A whole answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) calls: Vec<ToolCall>,
    /// The answer in the provider's own form, for the next turn.
    pub(crate) echo: Vec<Value>,
    /// Nothing if the provider did not report it.
    pub(crate) usage: Option<Usage>,
    /// Why the answer ended, in the provider's words.
    pub(crate) stop: Option<String>,
}

/// Tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the names are those of the answers of tools")]
pub(crate) struct Usage {
    /// Tokens that were sent, with cached ones.
    pub(crate) input_tokens: u64,
    /// How many of them the provider had cached.
    pub(crate) cached_tokens: u64,
    /// Tokens that were received, with those spent on thinking.
    pub(crate) output_tokens: u64,
}

impl Usage {
    pub(crate) fn add(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.cached_tokens += other.cached_tokens;
        self.output_tokens += other.output_tokens;
    }
}
