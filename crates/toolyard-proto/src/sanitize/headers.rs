//! Whether the annotations `x-mcp-header` of a tool are as the protocol requires. An HTTP client must leave out a tool
//! with an invalid one, since the server would refuse every call.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Look, Looked, named};
use crate::Raw;

const ANNOTATION: &str = "x-mcp-header";
/// Members of a schema whose values are data, not schemas.
const DATA: [&str; 5] = ["default", "const", "enum", "examples", "required"];
/// Members of a schema that map names to schemas.
const MAPS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Most tools have no annotation, which a plain search shows.
pub(super) fn check(look: &mut Look, tool: &Raw) -> Looked {
    if let Some(schema) = tool.member("inputSchema")
        && schema.as_str().contains(ANNOTATION)
        && let Ok(Value::Object(schema)) = schema.read::<Value>()
    {
        look.path.push(named("inputSchema"));
        Annotations { look, names: HashSet::new() }.schema(&schema, SchemaPlace::Root)?;
        look.path.pop();
    }
    Ok(None)
}

/// The place of a schema within the schema of a tool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPlace {
    Root,
    /// Reached through `properties` alone.
    Property,
    Elsewhere,
}

struct Annotations<'a> {
    look: &'a mut Look,
    /// The names so far, in lower case.
    names: HashSet<String>,
}

impl Annotations<'_> {
    fn schema(&mut self, schema: &Map<String, Value>, place: SchemaPlace) -> Looked {
        if let Some(name) = schema.get(ANNOTATION)
            && let Some(wrong) = self.wrong(name, schema, place)
        {
            return Err(self.look.fault(wrong));
        }
        for (key, value) in schema.iter().filter(|(key, _)| !DATA.contains(&key.as_str())) {
            self.look.path.push(named(key));
            match value {
                Value::Object(map) if MAPS.contains(&key.as_str()) => {
                    let is_direct = key == "properties" && place != SchemaPlace::Elsewhere;
                    self.map(map, if is_direct { SchemaPlace::Property } else { SchemaPlace::Elsewhere })?;
                }
                Value::Object(inner) => drop(self.schema(inner, SchemaPlace::Elsewhere)?),
                Value::Array(all) => self.list(all)?,
                _ => {}
            }
            self.look.path.pop();
        }
        Ok(None)
    }

    fn map(&mut self, map: &Map<String, Value>, place: SchemaPlace) -> Result<(), super::DefinitionFault> {
        for (key, value) in map {
            self.look.path.push(named(key));
            if let Value::Object(schema) = value {
                self.schema(schema, place)?;
            }
            self.look.path.pop();
        }
        Ok(())
    }

    fn list(&mut self, all: &[Value]) -> Result<(), super::DefinitionFault> {
        for (at, value) in all.iter().enumerate() {
            self.look.path.push(format!("[{at}]"));
            if let Value::Object(schema) = value {
                self.schema(schema, SchemaPlace::Elsewhere)?;
            }
            self.look.path.pop();
        }
        Ok(())
    }

    fn wrong(&mut self, name: &Value, schema: &Map<String, Value>, place: SchemaPlace) -> Option<String> {
        let Some(name) = name.as_str().filter(|name| !name.is_empty() && name.bytes().all(is_token)) else {
            return Some(format!("has an `{ANNOTATION}` that is not a header name"));
        };
        if place != SchemaPlace::Property {
            return Some(format!("has an `{ANNOTATION}` where its value cannot be found"));
        }
        if !has_one_value(schema) {
            return Some(format!("has an `{ANNOTATION}`, but is not a string, an integer or a boolean"));
        }
        let is_new = self.names.insert(name.to_ascii_lowercase());
        (!is_new).then(|| format!("has the same `{ANNOTATION}` as another parameter"))
    }
}

/// A byte of a header's name.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a parameter is one value that a header can carry. `null` means that the header is not sent.
fn has_one_value(schema: &Map<String, Value>) -> bool {
    let is_simple = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    match schema.get("type") {
        Some(Value::Array(kinds)) => {
            kinds.iter().any(is_simple) && kinds.iter().all(|kind| kind == "null" || is_simple(kind))
        }
        Some(kind) => is_simple(kind),
        None => !["anyOf", "oneOf", "allOf", "$ref"].iter().any(|key| schema.contains_key(*key)),
    }
}
