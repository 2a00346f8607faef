//! The result of a tool as the protocol knows it: blocks of text, images and the like, and structured data.

use data_encoding::BASE64;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolyard_proto::Raw;
use toolyard_proto::modern::SERVER_INFO;

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
    blocks: Vec<Block>,
    structured: Option<Value>,
    is_error: bool,
    others: Map<String, Value>,
    meta: Map<String, Value>,
}

/// Most answers are one text, which need not become a tree first.
#[derive(Clone, Debug, PartialEq)]
enum Block {
    Text(String),
    Other(Value),
}

impl Content {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text(text.into()));
        self
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
        self.blocks.push(Block::Other(block));
        self
    }

    /// Says who the last block is meant for (`"user"`, `"assistant"`) and how much it matters (0 to 1).
    pub fn meant_for(mut self, audience: &[&str], priority: f64) -> Self {
        let annotations = json!({ "audience": audience, "priority": priority });
        if let Some(last) = self.blocks.last_mut() {
            let mut block = json!(last);
            block["annotations"] = annotations;
            *last = Block::Other(block);
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

    /// The result as it stands on the wire; with the protocol's stamps if it is said who answers.
    pub(crate) fn into_raw(self, server: Option<&RawValue>) -> Raw {
        Raw::from_serialize(&Wire { content: &self, server })
    }
}

struct Wire<'a> {
    content: &'a Content,
    server: Option<&'a RawValue>,
}

/// The stamps are those that `stamp_result` would add afterwards.
impl Serialize for Wire<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Content { blocks, structured, is_error, others, meta } = self.content;
        let mut wire = serializer.serialize_map(None)?;
        wire.serialize_entry("content", blocks)?;
        if let Some(structured) = structured {
            wire.serialize_entry("structuredContent", structured)?;
        }
        if *is_error {
            wire.serialize_entry("isError", &true)?;
        }
        for (key, value) in others {
            wire.serialize_entry(key, value)?;
        }
        if self.server.is_some() && !others.contains_key("resultType") {
            wire.serialize_entry("resultType", "complete")?;
        }
        let server = self.server.filter(|_| !meta.contains_key(SERVER_INFO));
        if !meta.is_empty() || server.is_some() {
            wire.serialize_entry("_meta", &Meta { meta, server })?;
        }
        wire.end()
    }
}

struct Meta<'a> {
    meta: &'a Map<String, Value>,
    server: Option<&'a RawValue>,
}

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut wire = serializer.serialize_map(None)?;
        for (key, value) in self.meta {
            wire.serialize_entry(key, value)?;
        }
        if let Some(server) = self.server {
            wire.serialize_entry(SERVER_INFO, server)?;
        }
        wire.end()
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => {
                let mut block = serializer.serialize_map(Some(2))?;
                block.serialize_entry("type", "text")?;
                block.serialize_entry("text", text)?;
                block.end()
            }
            Self::Other(block) => block.serialize(serializer),
        }
    }
}

impl From<&crate::ToolError> for Content {
    fn from(error: &crate::ToolError) -> Self {
        Self::new().text(error.to_string()).failed()
    }
}
