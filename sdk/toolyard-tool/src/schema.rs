//! Schemas of Rust types for clients and models: without what only Rust readers need.

use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::check::limits::remove_format;

/// Marks a number that is moved into its range instead of being refused.
pub(crate) const CLAMP: &str = "x-toolyard-clamp";

/// Makes a field clamp: a number outside its `range` is moved to the nearest end instead of being refused.
///
/// ```
/// use toolyard_tool::{clamp, schemars::JsonSchema};
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Page {
///     /// How many to show.
///     #[schemars(range(min = 1, max = 50), transform = clamp)]
///     limit: u32,
/// }
/// ```
pub fn clamp(schema: &mut Schema) {
    schema.insert(CLAMP.into(), true.into());
}

/// Marks a text that is a path.
pub(crate) const PATH: &str = "x-toolyard-path";

/// Makes a key of a [`Pack`](crate::Pack)'s configuration a path, or a list of paths: a relative one
/// starts at the folder of the file that contains it, not at the working directory of the program.
///
/// ```
/// use std::path::PathBuf;
/// use toolyard_tool::{path, schemars::JsonSchema};
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Config {
///     /// Where the music is.
///     #[schemars(transform = path)]
///     root: PathBuf,
/// }
/// ```
pub fn path(schema: &mut Schema) {
    schema.insert(PATH.into(), true.into());
}

/// With the formats of numbers, which tell a [`Checker`](crate::check::Checker) their limits.
pub(crate) fn input<T: JsonSchema>() -> Value {
    generate::<T>(Contract::Deserialize)
}

pub(crate) fn output<T: JsonSchema>() -> Value {
    let mut schema = generate::<T>(Contract::Serialize);
    each(&mut schema, remove_format);
    schema
}

fn generate<T: JsonSchema>(contract: Contract) -> Value {
    let mut settings = SchemaSettings::draft2020_12().with_transform(PlainSchema);
    settings.contract = contract;
    // The dialect is the protocol's default.
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of the Rust type means nothing to a model.
    schema.remove("title");
    schema.to_value()
}

/// The schema of a form that a user fills in: flat, with nothing but simple fields, and with the formats of
/// numbers, as [`input`]. Conditions between its fields are checked, but not [`shown`].
pub(crate) fn form<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12().with_transform(PlainSchema).with_transform(Flat);
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The schema of a form in the shape that clients accept.
pub(crate) fn shown(form: &Value) -> Value {
    json!({
        "type": "object",
        "properties": form.get("properties").cloned().unwrap_or_else(|| json!({})),
        "required": form.get("required").cloned().unwrap_or_else(|| json!([])),
    })
}

/// Calls `see` with every schema within a schema, but not with values that merely look like one, such as a default.
pub(crate) fn each(schema: &mut Value, see: impl FnMut(&mut Map<String, Value>)) {
    if let Ok(schema) = schema.try_into() {
        Each(see).transform(schema);
    }
}

struct Each<F>(F);

impl<F: FnMut(&mut Map<String, Value>)> Transform for Each<F> {
    fn transform(&mut self, schema: &mut Schema) {
        let Some(keywords) = schema.as_object_mut() else { return };
        (self.0)(keywords);
        // These two are not known to `transform_subschemas`.
        let mut more: Vec<&mut Value> = Vec::new();
        for (name, value) in keywords {
            if name == "unevaluatedProperties" {
                more.push(value);
            } else if name == "dependentSchemas" {
                more.extend(value.as_object_mut().into_iter().flat_map(Map::values_mut));
            }
        }
        for schema in more.into_iter().filter_map(|schema| schema.try_into().ok()) {
            self.transform(schema);
        }
        transform_subschemas(self, schema);
    }
}

/// Replaces `true` by the equivalent `{}`: some clients drop the whole list of tools because of one
/// `true`.
#[derive(Clone)]
struct PlainSchema;

impl Transform for PlainSchema {
    fn transform(&mut self, schema: &mut Schema) {
        if schema.as_bool() == Some(true) {
            schema.ensure_object();
        }
        transform_subschemas(self, schema);
    }
}

/// Simplifies what a form cannot express: an optional field is simply not required, and the description of a choice
/// is its title.
#[derive(Clone)]
struct Flat;

impl Transform for Flat {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(Value::Array(types)) = schema.get("type") {
            let rest: Vec<Value> = types.iter().filter(|name| *name != "null").cloned().collect();
            if let [only] = rest.as_slice() {
                let only = only.clone();
                schema.insert("type".into(), only);
            }
        }
        if let Some(Value::Array(forms)) = schema.get("anyOf") {
            let rest: Vec<&Value> = forms.iter().filter(|form| form["type"] != "null").collect();
            if let [Value::Object(only)] = rest.as_slice() {
                let only = only.clone();
                schema.remove("anyOf");
                for (key, value) in only {
                    schema.insert(key, value);
                }
            }
        }
        if let Some(Value::Array(choices)) = schema.get_mut("oneOf")
            && choices.iter().all(|choice| choice.get("const").is_some())
        {
            choices.iter_mut().for_each(title_choice);
            schema.insert("type".into(), "string".into());
        }
        transform_subschemas(self, schema);
    }
}

fn title_choice(choice: &mut Value) {
    if let Some(choice) = choice.as_object_mut() {
        choice.remove("type");
        if let Some(text) = choice.remove("description") {
            choice.insert("title".into(), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Anything {
        one: Value,
        many: Vec<Value>,
    }

    #[test]
    fn a_field_that_may_be_anything_has_a_schema_that_is_an_object() {
        for schema in [input::<Anything>(), output::<Anything>()] {
            assert_eq!(schema["properties"], json!({ "one": {}, "many": { "type": "array", "items": {} } }));
            assert_eq!(schema["additionalProperties"], false);
        }
    }
}
