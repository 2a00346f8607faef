//! The items of a tool set: tools, prompts, resources and completions, each made from one plain function.

pub(crate) mod completion;
pub(crate) mod prompt;
pub(crate) mod resource;
pub(crate) mod template;
pub(crate) mod tool;

use serde_json::{Value, json};

use crate::state::{Source, Wanted};

/// Something that a set can offer. Made by the `#[tool]` attribute, and by nothing else.
///
/// ```
/// use toolyard_tool::{Item, tool};
///
/// /// Greets the user.
/// #[tool]
/// async fn hello() -> &'static str {
///     "hello"
/// }
///
/// fn can_be_offered<I: Item>() {}
/// can_be_offered::<hello>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not something a tool set can offer",
    label = "not a tool",
    note = "write `#[tool]` over a function, and add it by its name: `.with::<name>()`"
)]
pub trait Item {
    /// The part of the set's state that the function needs.
    #[doc(hidden)]
    type Wants: Wanted;

    /// The function with its description.
    #[doc(hidden)]
    fn entry(source: Source<Self::Wants>) -> Entry;
}

/// One thing that a set offers.
#[doc(hidden)]
#[derive(Debug)]
pub enum Entry {
    /// A tool.
    Tool(tool::Tool),
    /// A prompt.
    Prompt(prompt::Prompt),
    /// A resource at one URI.
    Resource(resource::Resource),
    /// Resources at many URIs.
    Template(template::Template),
    /// Suggestions for an argument.
    Completion(completion::Completion),
}

/// Images, as the protocol lists them. Types and sizes are left out: a URI may serve several kinds.
fn icons(sources: &[&str]) -> Value {
    sources.iter().map(|src| json!({ "src": src })).collect()
}
