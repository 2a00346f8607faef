//! The description as it is written: YAML or JSON, OpenAPI 3.0 or 3.1.

use oas3::Spec;
use serde_json::{Value, json};

use crate::describe::{self, Operation, Skipped};

/// An OpenAPI description, reduced to the operations that become tools.
#[derive(Debug)]
pub struct Description {
    pub title: String,
    pub version: String,
    /// The address of the service, if the description names a whole one.
    pub base: Option<String>,
    pub operations: Vec<Operation>,
    /// Operations that cannot be tools, and why.
    pub skipped: Vec<Skipped>,
}

impl Description {
    /// Whether this is an OpenAPI description of any version.
    pub fn is_one(text: &str) -> bool {
        parse(text).is_ok_and(|value| value.get("openapi").is_some() || value.get("swagger").is_some())
    }

    /// The error states what is wrong with the text.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut value = parse(text)?;
        match (value["openapi"].as_str(), value.get("swagger")) {
            (Some(version), _) if version.starts_with("3.0") => modernize(&mut value),
            (Some(version), _) if version.starts_with("3.1") => {}
            (Some(version), _) => {
                return Err(format!("OpenAPI {version} is not supported, only 3.0 and 3.1"));
            }
            (None, Some(_)) => return Err("Swagger 2 is not supported; convert it to OpenAPI 3".to_owned()),
            (None, None) => return Err("it has no `openapi` version".to_owned()),
        }
        let spec = oas3::from_json(value.to_string()).map_err(|error| format!("it is not valid: {error}"))?;
        let (operations, skipped) = describe::operations(&spec, &value);
        let base = base(&spec);
        Ok(Self { title: spec.info.title, version: spec.info.version, base, operations, skipped })
    }
}

fn parse(text: &str) -> Result<Value, String> {
    // JSON is read as JSON, for better messages.
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| format!("it is not valid JSON: {error}"));
    }
    yaml_serde::from_str(text).map_err(|error| format!("it is not valid YAML: {error}"))
}

/// The first server, with the defaults of its variables. A path alone is not an address.
fn base(spec: &Spec) -> Option<String> {
    let server = spec.primary_server()?;
    let mut url = server.url.clone();
    for (name, variable) in &server.variables {
        url = url.replace(&format!("{{{name}}}"), &variable.default);
    }
    url.contains("://").then(|| url.trim_end_matches('/').to_owned())
}

/// Schemas of OpenAPI 3.0 differ from JSON Schema in three keywords.
fn modernize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.remove("nullable") == Some(Value::Bool(true))
                && let Some(Value::String(kind)) = fields.get("type").cloned()
            {
                fields.insert("type".to_owned(), json!([kind, "null"]));
            }
            for (limit, flag) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
                match fields.get(flag) {
                    Some(Value::Bool(true)) => {
                        let bound = fields.remove(limit).unwrap_or_default();
                        fields.insert(flag.to_owned(), bound);
                    }
                    Some(Value::Bool(false)) => drop(fields.remove(flag)),
                    _ => {}
                }
            }
            fields.values_mut().for_each(modernize);
        }
        Value::Array(items) => items.iter_mut().for_each(modernize),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_other_versions_are_refused_by_name() {
        let refused = |text: &str| Description::read(text).unwrap_err();
        assert_eq!(refused("swagger: '2.0'"), "Swagger 2 is not supported; convert it to OpenAPI 3");
        assert_eq!(refused("openapi: 4.0.0"), "OpenAPI 4.0.0 is not supported, only 3.0 and 3.1");
        assert_eq!(refused("{}"), "it has no `openapi` version");
        assert!(refused("{").starts_with("it is not valid JSON: "));
        assert!(refused("openapi: 3.1.0").starts_with("it is not valid: "));
        assert!(!Description::is_one("name: x"));
    }

    #[test]
    fn schemas_of_the_earlier_version_become_json_schema() {
        let mut value = json!({ "a": { "type": "string", "nullable": true, "x": { "minimum": 1, "exclusiveMinimum": true } } });
        modernize(&mut value);
        assert_eq!(value, json!({ "a": { "type": ["string", "null"], "x": { "exclusiveMinimum": 1 } } }));
    }
}
