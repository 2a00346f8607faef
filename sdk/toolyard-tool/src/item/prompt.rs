//! A prompt: messages made for a model, from a few texts that the user gives.

use serde_json::{Map, Value, json};
use toolyard_proto::Raw;

use super::{Entry, icons};
use crate::arguments::{Arguments, Reader};
use crate::run::{Call, Runner, runner};
use crate::state::{Source, Wanted};

/// The attribute's data about a function.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct AboutPrompt {
    /// Its name.
    pub name: &'static str,
    /// Its title for people.
    pub title: Option<&'static str>,
    /// The doc comment.
    pub description: &'static str,
    /// The addresses of images.
    pub icons: &'static [&'static str],
}

/// The messages of a prompt.
///
/// ```
/// use toolyard_tool::Messages;
///
/// let messages = Messages::new()
///     .user("Review this change.")
///     .assistant("Which one?")
///     .user("The last.");
/// ```
#[must_use]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Messages(Vec<Value>);

impl Messages {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message of the user.
    pub fn user(self, text: impl Into<String>) -> Self {
        self.block("user", json!({ "type": "text", "text": text.into() }))
    }

    /// Adds a message of the model.
    pub fn assistant(self, text: impl Into<String>) -> Self {
        self.block("assistant", json!({ "type": "text", "text": text.into() }))
    }

    /// Adds content of another kind, in its wire format.
    pub fn block(mut self, role: &str, content: impl Into<Value>) -> Self {
        self.0.push(json!({ "role": role, "content": content.into() }));
        self
    }
}

/// The return value of a function under `#[tool(prompt)]`: text, [`Messages`], or a `Result` of these.
///
/// ```
/// use toolyard_tool::{IntoMessages, Messages, tool};
///
/// /// Asks for a review.
/// #[tool(prompt)]
/// async fn review() -> Messages {
///     Messages::new().user("Review this.").assistant("What shall I look at?")
/// }
///
/// assert_eq!("Hello".to_owned().into_messages(), Messages::new().user("Hello"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a prompt",
    label = "not messages",
    note = "return `String` for one message of the user, `Messages`, or a `Result` of these"
)]
pub trait IntoMessages: Send + 'static {
    /// The messages themselves.
    fn into_messages(self) -> Messages;
}

impl IntoMessages for String {
    fn into_messages(self) -> Messages {
        Messages::new().user(self)
    }
}

impl IntoMessages for &'static str {
    fn into_messages(self) -> Messages {
        Messages::new().user(self)
    }
}

impl IntoMessages for Messages {
    fn into_messages(self) -> Messages {
        self
    }
}

/// A prompt of a set.
#[doc(hidden)]
pub struct Prompt {
    pub(crate) name: &'static str,
    pub(crate) definition: Raw,
    pub(crate) get: Runner<Vec<(String, String)>, Raw>,
}

/// Makes a prompt from a function. Called by the attribute's code.
#[doc(hidden)]
pub fn prompt<W: Wanted, A: Arguments, O: IntoMessages>(
    about: AboutPrompt,
    source: Source<W>,
    call: Call<W, A, O>,
) -> Entry {
    let reader = Reader::<A>::new(about.name, None);
    let definition = define(&about, &reader);
    let get = runner(
        about.name,
        source,
        call,
        move |texts: Vec<(String, String)>| reader.read_texts(texts),
        move |output: O| {
            let messages = output.into_messages().0;
            Ok(json!({ "description": about.description, "messages": messages }).into())
        },
    );
    Entry::Prompt(Prompt { name: about.name, definition, get })
}

fn define<A: Arguments>(about: &AboutPrompt, reader: &Reader<A>) -> Raw {
    let mut prompt = Map::new();
    prompt.insert("name".into(), about.name.into());
    if let Some(title) = about.title {
        prompt.insert("title".into(), title.into());
    }
    prompt.insert("description".into(), about.description.into());
    let arguments: Vec<Value> =
        reader.fields().map(|(name, schema)| argument(name, schema, reader)).collect();
    if !arguments.is_empty() {
        prompt.insert("arguments".into(), arguments.into());
    }
    if !about.icons.is_empty() {
        prompt.insert("icons".into(), icons(about.icons));
    }
    Value::Object(prompt).into()
}

fn argument<A: Arguments>(name: &str, schema: &Value, reader: &Reader<A>) -> Value {
    let mut argument = json!({ "name": name });
    if let Some(text) = schema.get("description") {
        argument["description"] = text.clone();
    }
    argument["required"] = reader.is_required(name).into();
    argument
}

impl std::fmt::Debug for Prompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prompt({})", self.name)
    }
}
