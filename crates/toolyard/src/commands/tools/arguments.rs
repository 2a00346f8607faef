//! Arguments of a tool as they are typed: `name=text`, `name:=json`, `--args JSON`. Where the tool's schema
//! wants a number, a flag, a list or an object, `name=1` is read as one.

use serde_json::{Map, Value};

use super::get::kind;
use super::schema::parameters;

/// The error names the wrong argument and shows how to write it.
pub(super) fn read(
    typed: &[String],
    whole: Option<&str>,
    schema: &Value,
) -> Result<Map<String, Value>, String> {
    let mut arguments = match whole {
        Some(text) => object(text)?,
        None => Map::new(),
    };
    let parameters = parameters(schema);
    for text in typed {
        let (name, value) = argument(text, &parameters)?;
        arguments.insert(name, value);
    }
    refuse_early(&arguments, schema, &parameters)?;
    Ok(arguments)
}

/// Reports what the tool would certainly refuse before it is called: a missing parameter, or a value that is not
/// one of the allowed ones.
fn refuse_early(
    arguments: &Map<String, Value>,
    schema: &Value,
    parameters: &Map<String, Value>,
) -> Result<(), String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing: Vec<String> = required
        .filter(|name| !arguments.contains_key(*name))
        .map(|name| format!("`{name}` ({})", kind(parameters.get(name).unwrap_or(&Value::Null))))
        .collect();
    if !missing.is_empty() {
        return Err(format!("the tool needs {}", missing.join(", ")));
    }
    for (name, value) in arguments {
        let choices = parameters.get(name).and_then(|about| about["enum"].as_array());
        if choices.is_some_and(|choices| !choices.contains(value) && !value.is_null()) {
            let kind = kind(parameters.get(name).unwrap_or(&Value::Null));
            return Err(format!("`{name}` must be one of {kind}, and {value} is not"));
        }
    }
    Ok(())
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("--args requires a JSON object, such as '{\"path\": \"/srv\"}'".to_owned()),
        Err(error) => Err(format!("--args is not valid JSON: {error}")),
    }
}

fn argument(text: &str, parameters: &Map<String, Value>) -> Result<(String, Value), String> {
    let wrong = || format!("`{text}` is not an argument: write name=text or name:=json");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    if let Some(name) = name.strip_suffix(':') {
        let value = serde_json::from_str(value)
            .map_err(|error| format!("`{name}:=` requires valid JSON: {error}"))?;
        return Ok((name.to_owned(), value));
    }
    if name.is_empty() {
        return Err(wrong());
    }
    Ok((name.to_owned(), typed(name, value, parameters.get(name).unwrap_or(&Value::Null))?))
}

/// A text, unless the schema does not allow one.
fn typed(name: &str, text: &str, schema: &Value) -> Result<Value, String> {
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if kinds.is_empty() || kinds.contains(&"string") {
        return Ok(text.into());
    }
    let value: Option<Value> = serde_json::from_str(text).ok();
    let fits = |value: &Value| kinds.iter().any(|kind| is_of(kind, value));
    value
        .filter(fits)
        .ok_or_else(|| format!("`{name}` must be of type {}, and `{text}` is not", kind(schema)))
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(typed: &[&str], whole: Option<&str>, expected: &Result<Value, &str>) {
        let schema = json!({ "properties": {
            "text": { "type": "string" }, "n": { "type": "integer" }, "on": { "type": ["boolean", "null"] },
            "list": { "type": "array" }, "unit": { "type": "string", "enum": ["m", "km"] },
        } });
        let typed: Vec<String> = typed.iter().map(|&text| text.to_owned()).collect();
        let got = read(&typed, whole, &schema).map(Value::Object);
        assert_eq!(
            got.as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|text| *text),
            "{typed:?}"
        );
    }

    #[test]
    fn arguments_are_texts_unless_the_tool_wants_something_else() {
        check(&["text=1", "n=1", "on=true"], None, &Ok(json!({ "text": "1", "n": 1, "on": true })));
        check(&["other=1", "text=a=b"], None, &Ok(json!({ "other": "1", "text": "a=b" })));
        check(&["text:=[1]", "list=[2]"], None, &Ok(json!({ "text": [1], "list": [2] })));
        check(&["n=2"], Some("{\"n\":1,\"m\":{}}"), &Ok(json!({ "n": 2, "m": {} })));
    }

    #[test]
    fn arguments_that_the_tool_would_refuse_are_reported() {
        check(&["unit=km"], None, &Ok(json!({ "unit": "km" })));
        check(&["unit=mile"], None, &Err("`unit` must be one of \"m\"|\"km\", and \"mile\" is not"));
        let schema = json!({ "properties": { "path": { "type": "string" } }, "required": ["path", "depth"] });
        assert_eq!(read(&[], None, &schema), Err("the tool needs `path` (string), `depth` (any)".to_owned()));
        let typed = ["path=x", "depth=1"].map(str::to_owned);
        assert!(read(&typed, None, &schema).is_ok());
    }

    #[test]
    fn mistakes_are_named() {
        check(&["n=x"], None, &Err("`n` must be of type integer, and `x` is not"));
        check(&["n"], None, &Err("`n` is not an argument: write name=text or name:=json"));
        check(
            &["n:={"],
            None,
            &Err("`n:=` requires valid JSON: EOF while parsing an object at line 1 column 1"),
        );
        check(&[], Some("[]"), &Err("--args requires a JSON object, such as '{\"path\": \"/srv\"}'"));
    }
}
