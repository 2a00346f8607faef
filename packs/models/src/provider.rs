//! The forms in which providers take a request and stream an answer. Each submodule is one form: a request as JSON, and
//! a reader of its events.

mod anthropic;
mod compatible;
mod gemini;
mod openai;
#[cfg(test)]
mod tests;

use serde_json::Value;
use toolyard_tool::Secret;

use crate::config::Kind;
use crate::conversation::{Piece, Reply, Turn, Usage};
use crate::trouble::Trouble;

/// Collects an answer from its events.
pub(crate) trait Reader: Send {
    /// Takes the next event: what is worth showing at once.
    fn event(&mut self, event: Value) -> Result<Option<Piece>, Trouble>;

    /// The tokens that the provider has reported by now.
    fn usage(&self) -> Option<Usage>;

    /// The answer, if its end has come.
    fn finish(self: Box<Self>) -> Option<Reply>;
}

/// How a request is authenticated.
#[derive(Clone, Debug)]
pub(crate) enum Auth {
    None,
    Key(Secret),
    Login(Secret),
}

impl Auth {
    /// As the answer of a tool names it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Key(_) => "key",
            Self::Login(_) => "login",
        }
    }

    pub(crate) fn secret(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Key(secret) | Self::Login(secret) => Some(secret.expose()),
        }
    }
}

impl Kind {
    pub(crate) fn url(self, base: &str, turn: &Turn) -> String {
        let base = base.trim_end_matches('/');
        match self {
            Self::Gemini => format!("{base}/models/{}:streamGenerateContent?alt=sse", turn.model),
            Self::OpenAi => format!("{base}/responses"),
            Self::Anthropic => format!("{base}/messages"),
            Self::Compatible => format!("{base}/chat/completions"),
        }
    }

    pub(crate) fn headers(self, auth: &Auth) -> Vec<(String, Secret)> {
        let mut headers = Vec::new();
        let mut add = |name: &str, value: String| headers.push((name.to_owned(), Secret::new(value)));
        match (self, auth) {
            (_, Auth::None) => {}
            (Self::Gemini, Auth::Key(key)) => add("x-goog-api-key", key.expose().to_owned()),
            (Self::Anthropic, Auth::Key(key)) => add("x-api-key", key.expose().to_owned()),
            (_, Auth::Key(token) | Auth::Login(token)) => {
                add("authorization", format!("Bearer {}", token.expose()));
            }
        }
        if self == Self::Anthropic {
            add("anthropic-version", "2023-06-01".to_owned());
        }
        headers
    }

    pub(crate) fn body(self, turn: &Turn) -> Value {
        match self {
            Self::Gemini => gemini::body(turn),
            Self::OpenAi => openai::body(turn),
            Self::Anthropic => anthropic::body(turn),
            Self::Compatible => compatible::body(turn),
        }
    }

    pub(crate) fn reader(self) -> Box<dyn Reader> {
        match self {
            Self::Gemini => Box::<gemini::Events>::default(),
            Self::OpenAi => Box::<openai::Events>::default(),
            Self::Anthropic => Box::<anthropic::Events>::default(),
            Self::Compatible => Box::<compatible::Events>::default(),
        }
    }
}

/// The message of an error in any of the forms in use.
pub(crate) fn error_message(body: &Value) -> Option<String> {
    let error = match body {
        Value::Array(items) => items.first()?.get("error")?,
        body => body.get("error")?,
    };
    let text = error.get("message").or(Some(error))?.as_str()?;
    Some(text.to_owned())
}

/// An error that comes as an event has a name instead of a status.
fn failed(name: &str, message: &str) -> Trouble {
    let status = match name {
        "overloaded_error" => 529,
        "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED" | "429" => 429,
        "api_error" | "server_error" | "INTERNAL" | "500" => 500,
        "UNAVAILABLE" | "502" | "503" => 503,
        "authentication_error" => 401,
        _ => 400,
    };
    Trouble::Status { status, message: message.to_owned(), retry_after: None }
}

/// A schema without what providers refuse at its top.
fn parameters(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
    }
    schema
}

fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

fn count_at(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// The arguments that a model wrote as text. What is not JSON is kept as text, so that the model can correct it.
fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}
