//! The result of a tool as the protocol knows it: blocks of text, images and the like, and structured data.

use data_encoding::BASE64;
use serde::ser::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolyard_proto::Raw;
use toolyard_proto::modern::SERVER_INFO;
use toolyard_proto::raw::put_string;

/// The answer of a tool for which a plain value is not enough: several blocks of different kinds.
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

    /// Adds a block in its wire format, for kinds that have no method here.
    pub fn block(mut self, block: Value) -> Self {
        self.blocks.push(Block::Other(block));
        self
    }

    /// Sets the audience of the last block (`"user"`, `"assistant"`) and its priority (0 to 1).
    pub fn meant_for(mut self, audience: &[&str], priority: f64) -> Self {
        let annotations = json!({ "audience": audience, "priority": priority });
        if let Some(last) = self.blocks.last_mut() {
            let mut block = match last {
                Block::Text(text) => json!({ "type": "text", "text": text }),
                Block::Other(block) => block.take(),
            };
            block["annotations"] = annotations;
            *last = Block::Other(block);
        }
        self
    }

    /// Adds structured data beside the blocks. A value that is not an object is put under `result`.
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

    /// The result as it is on the wire; with the protocol's own fields if `server` is given. They are those
    /// that `stamp_result` would add afterwards.
    pub(crate) fn into_raw(self, server: Option<&RawValue>) -> Raw {
        let Self { blocks, structured, is_error, others, meta } = &self;
        let mut out = Vec::with_capacity(self.room() + server.map_or(0, |server| server.get().len()));
        out.extend_from_slice(b"{\"content\":[");
        put_joined(&mut out, blocks, |out, block| block.put(out));
        out.push(b']');
        if let Some(structured) = structured {
            out.extend_from_slice(b",\"structuredContent\":");
            put_value(&mut out, structured);
        }
        if *is_error {
            out.extend_from_slice(b",\"isError\":true");
        }
        for member in others {
            out.push(b',');
            put_member(&mut out, member);
        }
        if server.is_some() && !others.contains_key("resultType") {
            out.extend_from_slice(b",\"resultType\":\"complete\"");
        }
        put_meta(&mut out, meta, server.filter(|_| !meta.contains_key(SERVER_INFO)));
        out.push(b'}');
        Raw::assembled(out)
    }

    /// An estimate of its size in bytes.
    fn room(&self) -> usize {
        let text = |block: &Block| if let Block::Text(text) = block { text.len() + 32 } else { 256 };
        let structured = if self.structured.is_some() { 256 } else { 0 };
        128 + self.blocks.iter().map(text).sum::<usize>() + structured
    }
}

impl Block {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => {
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                put_string(out, text);
                out.push(b'}');
            }
            Self::Other(block) => put_value(out, block),
        }
    }
}

fn put_meta(out: &mut Vec<u8>, meta: &Map<String, Value>, server: Option<&RawValue>) {
    if meta.is_empty() && server.is_none() {
        return;
    }
    out.extend_from_slice(b",\"_meta\":{");
    put_joined(out, meta, put_member);
    if let Some(server) = server {
        if !meta.is_empty() {
            out.push(b',');
        }
        put_string(out, SERVER_INFO);
        out.push(b':');
        out.extend_from_slice(server.get().as_bytes());
    }
    out.push(b'}');
}

/// All of them, with commas between.
fn put_joined<T>(out: &mut Vec<u8>, all: impl IntoIterator<Item = T>, put: impl Fn(&mut Vec<u8>, T)) {
    for (at, one) in all.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put(out, one);
    }
}

fn put_member(out: &mut Vec<u8>, (key, value): (&String, &Value)) {
    put_string(out, key);
    out.push(b':');
    put_value(out, value);
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("plain data always renders as JSON");
}

impl From<&crate::ToolError> for Content {
    fn from(error: &crate::ToolError) -> Self {
        Self::new().text(error.to_string()).failed()
    }
}

#[cfg(test)]
mod tests;
