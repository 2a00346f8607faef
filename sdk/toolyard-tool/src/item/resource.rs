//! A resource: something to read at a URI.

use data_encoding::BASE64;
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolyard_proto::Raw;

use super::{Entry, icons};
use crate::ToolError;
use crate::arguments::NoArguments;
use crate::run::{Call, Runner, runner};
use crate::state::{Source, Wanted};

/// The attribute's data about a function.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct AboutResource {
    /// The URI, or the pattern of URIs.
    pub uri: &'static str,
    /// Its name, for programs.
    pub name: &'static str,
    /// Its title, for people.
    pub title: Option<&'static str>,
    /// The doc comment.
    pub description: &'static str,
    /// The MIME type of the content.
    pub mime: Option<&'static str>,
    /// The addresses of images.
    pub icons: &'static [&'static str],
}

/// The content of a resource: text or bytes, and the MIME type.
///
/// ```
/// use toolyard_tool::Contents;
///
/// let page = Contents::text("# Title").mime("text/markdown");
/// let logo = Contents::bytes(b"\x89PNG...").mime("image/png");
/// ```
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    body: (&'static str, String),
    mime: Option<String>,
}

impl Contents {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { body: ("text", text.into()), mime: None }
    }

    /// Bytes.
    pub fn bytes(bytes: &[u8]) -> Self {
        Self { body: ("blob", BASE64.encode(bytes)), mime: None }
    }

    /// A value as JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, ToolError> {
        Ok(Self::text(serde_json::to_string_pretty(value)?).mime("application/json"))
    }

    /// Sets the MIME type, where it differs from the one in the function's attribute.
    pub fn mime(mut self, mime: impl Into<String>) -> Self {
        self.mime = Some(mime.into());
        self
    }

    pub(super) fn into_raw(self, uri: &str, mime: Option<&str>) -> Raw {
        let mut content = json!({ "uri": uri });
        if let Some(mime) = self.mime.as_deref().or(mime) {
            content["mimeType"] = mime.into();
        }
        content[self.body.0] = self.body.1.into();
        json!({ "contents": [content] }).into()
    }
}

/// The return value of a function under `#[tool(resource = …)]`: text, [`Contents`], or a `Result` of these.
///
/// ```
/// use toolyard_tool::{Contents, Readable, tool};
///
/// /// The logo.
/// #[tool(resource = "house://logo", mime = "image/gif")]
/// async fn logo() -> Contents {
///     Contents::bytes(b"GIF89a")
/// }
///
/// assert_eq!("text".to_owned().into_contents(), Contents::text("text"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the content of a resource",
    label = "not readable",
    note = "return `String`, `Contents`, or a `Result` of these"
)]
pub trait Readable: Send + 'static {
    /// The content itself.
    fn into_contents(self) -> Contents;
}

impl Readable for String {
    fn into_contents(self) -> Contents {
        Contents::text(self)
    }
}

impl Readable for &'static str {
    fn into_contents(self) -> Contents {
        Contents::text(self)
    }
}

impl Readable for Contents {
    fn into_contents(self) -> Contents {
        self
    }
}

/// A resource of a set.
#[doc(hidden)]
pub struct Resource {
    pub(crate) uri: &'static str,
    pub(crate) definition: Raw,
    pub(crate) read: Runner<(), Raw>,
}

/// Makes a resource from a function. Called by the attribute's code.
#[doc(hidden)]
pub fn resource<W: Wanted, O: Readable>(
    about: AboutResource,
    source: Source<W>,
    call: Call<W, NoArguments, O>,
) -> Entry {
    let read = runner(
        about.name,
        source,
        call,
        |()| Ok(NoArguments {}),
        move |output: O| Ok(output.into_contents().into_raw(about.uri, about.mime)),
    );
    Entry::Resource(Resource { uri: about.uri, definition: define(&about, "uri"), read })
}

pub(super) fn define(about: &AboutResource, key: &str) -> Raw {
    let mut resource = Map::new();
    let mut put = |key: &str, value: &str| resource.insert(key.to_owned(), value.into());
    put(key, about.uri);
    put("name", about.name);
    if let Some(title) = about.title {
        put("title", title);
    }
    put("description", about.description);
    if let Some(mime) = about.mime {
        put("mimeType", mime);
    }
    if !about.icons.is_empty() {
        resource.insert("icons".to_owned(), icons(about.icons));
    }
    Value::Object(resource).into()
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resource({})", self.uri)
    }
}
