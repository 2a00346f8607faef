//! The result of a tool as the protocol knows it: blocks of text, images and the like, and structured data.

use data_encoding::BASE64;
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolyard_proto::Raw;

/// What a tool answers when a plain value is not enough: several blocks of different kinds.
///
/// ```
/// use toolyard_tool::Content;
///
/// let chart = Content::new()
///     .text("Sales by month")
///     .image("image/png", b"\x89PNG...")
///     .link("file:///sales.csv", "sales.csv");
/// ```
#[must_use]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    blocks: Vec<Value>,
    structured: Option<Value>,
    is_error: bool,
    others: Map<String, Value>,
    meta: Map<String, Value>,
}

impl Content {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.block(json!({ "type": "text", "text": text.into() }))
    }

    /// Adds an image.
    pub fn image(self, mime: &str, bytes: &[u8]) -> Self {
        self.block(json!({ "type": "image", "data": BASE64.encode(bytes), "mimeType": mime }))
    }

    /// Adds a sound.
    pub fn audio(self, mime: &str, bytes: &[u8]) -> Self {
        self.block(json!({ "type": "audio", "data": BASE64.encode(bytes), "mimeType": mime }))
    }

    /// Adds a resource with its text.
    pub fn resource(self, uri: &str, mime: &str, text: impl Into<String>) -> Self {
        let resource = json!({ "uri": uri, "mimeType": mime, "text": text.into() });
        self.block(json!({ "type": "resource", "resource": resource }))
    }

    /// Adds a resource with its bytes.
    pub fn blob(self, uri: &str, mime: &str, bytes: &[u8]) -> Self {
        let resource = json!({ "uri": uri, "mimeType": mime, "blob": BASE64.encode(bytes) });
        self.block(json!({ "type": "resource", "resource": resource }))
    }

    /// Adds a link to a resource that the client may read.
    pub fn link(self, uri: &str, name: &str) -> Self {
        self.block(json!({ "type": "resource_link", "uri": uri, "name": name }))
    }

    /// Adds a block as it will stand on the wire, for kinds that have no method here.
    pub fn block(mut self, block: Value) -> Self {
        self.blocks.push(block);
        self
    }

    /// Says who the last block is meant for (`"user"`, `"assistant"`) and how much it matters (0 to 1).
    pub fn meant_for(mut self, audience: &[&str], priority: f64) -> Self {
        if let Some(Value::Object(block)) = self.blocks.last_mut() {
            block.insert("annotations".into(), json!({ "audience": audience, "priority": priority }));
        }
        self
    }

    /// Adds structured data beside the blocks. A value that is not an object stands under `result`.
    pub fn structured(mut self, value: &impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.structured = Some(if value.is_object() { value } else { json!({ "result": value }) });
        self
    }

    /// Marks the whole as a failure.
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Adds any other member to the result.
    pub fn member(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.others.insert(key.to_owned(), value.into());
        self
    }

    /// Adds to the result's `_meta`.
    pub fn meta(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(key.to_owned(), value.into());
        self
    }

    /// The result as it stands on the wire, without the protocol's stamps.
    pub(crate) fn into_raw(self) -> Raw {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            content: Vec<Value>,
            #[serde(skip_serializing_if = "Option::is_none")]
            structured_content: Option<Value>,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            is_error: bool,
            #[serde(flatten)]
            others: Map<String, Value>,
            #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
            meta: Map<String, Value>,
        }
        Raw::from_serialize(&Wire {
            content: self.blocks,
            structured_content: self.structured,
            is_error: self.is_error,
            others: self.others,
            meta: self.meta,
        })
    }
}

impl From<&crate::ToolError> for Content {
    fn from(error: &crate::ToolError) -> Self {
        Self::new().text(error.to_string()).failed()
    }
}
