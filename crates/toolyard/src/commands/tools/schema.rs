//! The parameters of a tool, read from its schema as far as one line can describe them: a `$ref` is
//! resolved, and alternatives (`anyOf`, `oneOf`) become one kind, or one list of choices.

use serde_json::{Map, Value, json};

/// A schema may refer to itself.
const DEEPEST: usize = 8;

/// The parameters by name, each with `type` or `enum` where the schema determines them.
pub(super) fn parameters(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.map(|(name, about)| (name.clone(), resolved(about, schema, DEEPEST))).collect()
}

fn resolved(about: &Value, whole: &Value, deepest: usize) -> Value {
    let mut plain = about.clone();
    let Some(fields) = plain.as_object_mut().filter(|_| deepest > 0) else { return plain };
    let place = fields.remove("$ref").and_then(|to| to.as_str()?.strip_prefix('#').map(str::to_owned));
    if let Some(Value::Object(target)) =
        place.and_then(|place| whole.pointer(&place)).map(|target| resolved(target, whole, deepest - 1))
    {
        // Keywords beside the reference take precedence.
        for (key, value) in target {
            fields.entry(key).or_insert(value);
        }
    }
    let alternatives = ["anyOf", "oneOf"].into_iter().find_map(|key| fields.remove(key));
    if let Some(Value::Array(alternatives)) = alternatives {
        let all: Vec<Value> = alternatives.iter().map(|one| resolved(one, whole, deepest - 1)).collect();
        if let Some((key, value)) = together(&all) {
            fields.entry(key).or_insert(value);
        }
    }
    if let Some(only) = fields.remove("const") {
        fields.insert("enum".to_owned(), json!([only]));
    }
    plain
}

/// One type for all alternatives, if they agree. `null` is left out.
fn together(all: &[Value]) -> Option<(String, Value)> {
    let all: Vec<&Value> = all.iter().filter(|one| one["type"] != "null").collect();
    let choices: Option<Vec<&Vec<Value>>> = all.iter().map(|one| one["enum"].as_array()).collect();
    if let Some(choices) = choices {
        return Some(("enum".to_owned(), choices.into_iter().flatten().cloned().collect()));
    }
    let kinds: Option<Vec<Vec<Value>>> = all
        .iter()
        .map(|one| match &one["type"] {
            kind @ Value::String(_) => Some(vec![kind.clone()]),
            Value::Array(kinds) => Some(kinds.clone()),
            _ => None,
        })
        .collect();
    let mut kinds: Vec<Value> = kinds?.into_iter().flatten().collect();
    kinds.dedup();
    let kind = if kinds.len() == 1 { kinds.remove(0) } else { Value::Array(kinds) };
    Some(("type".to_owned(), kind))
}

#[cfg(test)]
mod tests {
    use super::super::get::kind;
    use super::*;

    #[test]
    fn the_kind_of_a_parameter_is_found_wherever_its_schema_declares_it() {
        let check = |about: Value, expected: &str| {
            let defs = json!({
                "Unit": { "type": "string", "enum": ["m", "km"] },
                "Size": { "type": "integer" },
                "Loop": { "$ref": "#/$defs/Loop" },
                "Way": { "oneOf": [{ "const": "up" }, { "const": "down", "description": "Not up." }] },
            });
            let schema = json!({ "properties": { "x": about }, "$defs": defs });
            assert_eq!(kind(&parameters(&schema)["x"]), expected, "{about}");
        };
        check(json!({ "type": "number" }), "number");
        check(json!({ "$ref": "#/$defs/Unit", "description": "Which." }), r#""m"|"km""#);
        check(json!({ "anyOf": [{ "$ref": "#/$defs/Unit" }, { "type": "null" }] }), r#""m"|"km""#);
        check(json!({ "$ref": "#/$defs/Way" }), r#""up"|"down""#);
        check(json!({ "$ref": "#/$defs/Size" }), "integer");
        check(json!({ "anyOf": [{ "$ref": "#/$defs/Size" }, { "type": "boolean" }] }), "integer|boolean");
        check(json!({ "anyOf": [{ "$ref": "#/$defs/Size" }, {}] }), "any");
        check(json!({ "$ref": "#/$defs/Loop" }), "any");
        check(json!({ "$ref": "https://elsewhere.example/schema" }), "any");
        check(json!({ "$ref": "#/$defs/Missing" }), "any");
        check(json!({ "anyOf": [] }), "any");
        check(json!(true), "any");
    }
}
