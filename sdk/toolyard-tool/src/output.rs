//! Converts a function's return value into the answer: its schema, its structured content and its text.
//!
//! Structured content is always an object, since clients before 2026-07-28 accept nothing else: a list or a
//! number is put under `result`, and so is a value that need not be an object, such as an `Option` or an enum with
//! data. Text and `()` have none.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::schema;
use crate::{Content, ToolError};

/// A value that a tool function may return, alone or as the `Ok` value of a `Result`: any value that derives
/// `Serialize` and `JsonSchema`, [`Content`], or [`WithText`].
///
/// ```
/// use toolyard_tool::{Output, schemars::JsonSchema};
///
/// #[derive(serde::Serialize, JsonSchema)]
/// struct Sum {
///     total: i64,
/// }
///
/// fn is_answer<T: Output>() {}
/// is_answer::<Sum>();
/// is_answer::<Vec<Sum>>();
/// is_answer::<String>();
/// is_answer::<()>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the answer of a tool",
    label = "not an answer",
    note = "return a value that derives `Serialize` and `JsonSchema`, `Content`, `WithText`, `()`, or a `Result` of these"
)]
pub trait Output: Send + 'static {
    /// The form in which values of this type are answered.
    #[doc(hidden)]
    fn shape() -> Shape;

    /// The answer itself.
    #[doc(hidden)]
    fn into_content(self, shape: &Shape) -> Result<Content, ToolError>;
}

/// The form in which values of a type are answered.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// `()`: the answer only confirms success.
    Nothing,
    /// Text alone.
    Text,
    /// An object with this schema.
    Object(Value),
    /// Anything else, under `result` of an object with this schema.
    Wrapped(Value),
    /// Content that the tool assembles itself.
    Free,
}

impl Shape {
    pub(crate) fn schema(&self) -> Option<&Value> {
        match self {
            Self::Object(schema) | Self::Wrapped(schema) => Some(schema),
            Self::Nothing | Self::Text | Self::Free => None,
        }
    }
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Wrapped<T> {
    result: T,
}

fn shape_of<T: JsonSchema>() -> Shape {
    let schema = schema::output::<T>();
    match schema.get("type").and_then(Value::as_str) {
        Some("null") => Shape::Nothing,
        Some("string") => Shape::Text,
        Some("object") => Shape::Object(schema),
        _ => Shape::Wrapped(schema::output::<Wrapped<T>>()),
    }
}

fn content_of<T: Serialize>(value: &T, shape: &Shape, text: Option<String>) -> Result<Content, ToolError> {
    let value = serde_json::to_value(value)?;
    match shape {
        Shape::Nothing => Ok(Content::new().text(text.unwrap_or_else(|| "Done.".into()))),
        Shape::Object(_) => {
            Ok(Content::new().text(text.unwrap_or_else(|| readable(&value))).structured(&value))
        }
        // A value that may or may not be an object is wrapped in any case, as its schema requires.
        Shape::Wrapped(_) => {
            let text = text.unwrap_or_else(|| readable(&value));
            Ok(Content::new().text(text).structured(&json!({ "result": value })))
        }
        Shape::Text | Shape::Free => Ok(Content::new().text(text.unwrap_or_else(|| bare(value)))),
    }
}

/// The value as text: strings bare, everything else as indented JSON.
fn bare(value: Value) -> String {
    match value {
        Value::String(text) => text,
        value => readable(&value),
    }
}

fn readable(value: &Value) -> String {
    value.as_str().map_or_else(|| format!("{value:#}"), ToOwned::to_owned)
}

impl<T: Serialize + JsonSchema + Send + 'static> Output for T {
    fn shape() -> Shape {
        shape_of::<T>()
    }

    fn into_content(self, shape: &Shape) -> Result<Content, ToolError> {
        content_of(&self, shape, None)
    }
}

impl Output for Content {
    fn shape() -> Shape {
        Shape::Free
    }

    fn into_content(self, _: &Shape) -> Result<Content, ToolError> {
        Ok(self)
    }
}

/// A value with a text of its own, where indented JSON would not read well.
///
/// ```
/// # use toolyard_tool::{WithText, schemars::JsonSchema};
/// #[derive(serde::Serialize, JsonSchema)]
/// struct Sum { total: i64 }
///
/// fn answer() -> WithText<Sum> {
///     WithText::new(Sum { total: 4 }, "2 + 2 = 4")
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WithText<T> {
    value: T,
    text: String,
    is_failure: bool,
}

impl<T> WithText<T> {
    /// `value` as structured content, `text` as its text.
    pub fn new(value: T, text: impl Into<String>) -> Self {
        Self { value, text: text.into(), is_failure: false }
    }

    /// Marks the answer as that of a tool that failed, whose value the caller should still get.
    #[must_use]
    pub fn failed(self) -> Self {
        Self { is_failure: true, ..self }
    }

    /// The value, for code that calls the function directly.
    pub fn value(&self) -> &T {
        &self.value
    }
}

impl<T: Serialize + JsonSchema + Send + 'static> Output for WithText<T> {
    fn shape() -> Shape {
        shape_of::<T>()
    }

    fn into_content(self, shape: &Shape) -> Result<Content, ToolError> {
        let content = content_of(&self.value, shape, Some(self.text))?;
        Ok(if self.is_failure { content.failed() } else { content })
    }
}
