//! What is asked for, and what a right answer to it looks like.

use std::borrow::Cow;

use bytes::Bytes;
use clap::ValueEnum;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};
use toolyard_bench::{sample, wire};

use crate::args::Era;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    Echo,
    Add,
    Sleep,
    Blob,
    Progress,
    List,
    Ping,
}

pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) size: usize,
    tool: String,
    /// What `blob` must return; empty for the others.
    blob: String,
}

/// A message from the server, parsed as far as it is checked.
#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    pub(crate) id: Option<u64>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    result: Option<Outcome<'a>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    #[serde(borrow, default)]
    content: Vec<Content<'a>>,
    #[serde(default)]
    is_error: bool,
    tools: Option<Vec<Tool>>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

/// A listed tool must have a name and a schema that is an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "inputSchema")]
    _schema: Object,
}

/// Any JSON object; nothing of it is kept.
struct Object;

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Object, A::Error> {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Object)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// What a right answer carries that the next request needs.
#[derive(Default, Clone)]
pub(crate) struct Checked {
    pub(crate) cursor: Option<String>,
    pub(crate) tools: usize,
}

impl Operation {
    pub(crate) fn new(kind: Kind, tool: Option<String>, size: Option<usize>) -> Self {
        let (default_tool, default_size) = match kind {
            Kind::Echo => ("echo", 64),
            Kind::Add => ("add", 0),
            Kind::Sleep => ("sleep", 10),
            Kind::Blob => ("blob", 1),
            Kind::Progress => ("progress", 10),
            Kind::List => ("", 1),
            Kind::Ping => ("", 0),
        };
        let size = size.unwrap_or(default_size);
        let blob = if kind == Kind::Blob { sample::blob(size) } else { String::new() };
        Self { kind, size, tool: tool.unwrap_or_else(|| default_tool.to_owned()), blob }
    }

    pub(crate) fn method(&self) -> &'static str {
        match self.kind {
            Kind::List => "tools/list",
            Kind::Ping => "ping",
            _ => "tools/call",
        }
    }

    /// The value of the header that names the tool, where one is called.
    pub(crate) fn tool(&self) -> Option<&str> {
        (self.method() == "tools/call").then_some(&self.tool)
    }

    pub(crate) fn request(&self, id: u64, era: Era, cursor: Option<&str>) -> Bytes {
        let mut params = match self.kind {
            Kind::Ping => json!({}),
            Kind::List => cursor.map_or(json!({}), |cursor| json!({ "cursor": cursor })),
            _ => json!({ "name": self.tool, "arguments": self.arguments(id) }),
        };
        if era == Era::Modern {
            params["_meta"] = modern_meta();
        }
        if self.kind == Kind::Progress {
            params["_meta"]["progressToken"] = json!(id);
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": self.method(), "params": params }).to_string().into()
    }

    /// Whether every answer is the same but for its id.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.kind, Kind::Blob | Kind::List)
    }

    /// Checks the answer to request `id`; `progress` is how many notifications came before it.
    pub(crate) fn check(&self, id: u64, message: Message<'_>, progress: usize) -> Result<Checked, String> {
        if message.id != Some(id) {
            return Err("the answer has another id".to_owned());
        }
        if let Some(error) = message.error {
            return Err(format!("JSON-RPC error {error}"));
        }
        let outcome = message.result.ok_or("neither result nor error")?;
        match self.kind {
            Kind::Ping => Ok(Checked::default()),
            Kind::List => {
                let tools = outcome.tools.ok_or("a list without tools")?.len();
                Ok(Checked { cursor: outcome.next_cursor, tools })
            }
            _ => self.check_call(id, &outcome, progress),
        }
    }

    fn check_call(&self, id: u64, outcome: &Outcome<'_>, progress: usize) -> Result<Checked, String> {
        let text = outcome.content.first().and_then(|content| content.text.as_deref()).unwrap_or("");
        if outcome.is_error {
            return Err(format!("the tool failed: {}", beginning(text)));
        }
        if text != self.expected_text(id) {
            return Err(format!("another text than expected: {}", beginning(text)));
        }
        if self.kind == Kind::Progress && progress != self.size {
            return Err(format!("{progress} progress notifications of {}", self.size));
        }
        Ok(Checked::default())
    }

    fn arguments(&self, id: u64) -> Value {
        match self.kind {
            Kind::Echo => json!({ "text": self.expected_text(id) }),
            Kind::Add => json!({ "a": id, "b": 1 }),
            Kind::Sleep => json!({ "ms": self.size }),
            Kind::Blob => json!({ "kb": self.size }),
            Kind::Progress => json!({ "n": self.size }),
            Kind::List | Kind::Ping => json!({}),
        }
    }

    fn expected_text(&self, id: u64) -> Cow<'_, str> {
        match self.kind {
            Kind::Echo => format!("{id:0>width$}", width = self.size).into(),
            Kind::Add => (id + 1).to_string().into(),
            Kind::Sleep => format!("slept {}", self.size).into(),
            Kind::Progress => format!("sent {}", self.size).into(),
            Kind::Blob => self.blob.as_str().into(),
            Kind::List | Kind::Ping => "".into(),
        }
    }
}

fn modern_meta() -> Value {
    json!({
        wire::META_VERSION: wire::MODERN,
        wire::META_CLIENT_INFO: { "name": "bench-load", "version": env!("CARGO_PKG_VERSION") },
        wire::META_CLIENT_CAPABILITIES: {},
    })
}

fn beginning(text: &str) -> String {
    text.chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, answer: &str) -> Result<(), String> {
        let operation = Operation::new(kind, None, Some(4));
        let message = serde_json::from_str(answer).map_err(|error| error.to_string())?;
        operation.check(7, message, 0).map(drop)
    }

    #[test]
    fn only_the_right_echo_is_accepted() {
        let answer = |id: u64, text: &str| {
            json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": text }] } })
                .to_string()
        };
        assert_eq!(check(Kind::Echo, &answer(7, "0007")), Ok(()));
        assert!(check(Kind::Echo, &answer(8, "0007")).is_err());
        assert!(check(Kind::Echo, &answer(7, "0008")).is_err());
    }

    #[test]
    fn a_listed_tool_without_a_schema_is_refused() {
        let answer = |tool: Value| json!({ "id": 7, "result": { "tools": [tool] } }).to_string();
        assert_eq!(check(Kind::List, &answer(json!({ "name": "a", "inputSchema": {} }))), Ok(()));
        assert!(check(Kind::List, &answer(json!({ "name": "a" }))).is_err());
    }

    #[test]
    fn a_failed_tool_is_an_error() {
        let answer = json!({ "id": 7, "result": { "isError": true, "content": [{ "type": "text", "text": "0007" }] } });
        assert!(check(Kind::Echo, &answer.to_string()).is_err());
    }
}
