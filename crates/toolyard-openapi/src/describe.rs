//! Converts the operations of a description to definitions of tools.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use oas3::Spec;
use oas3::spec::{Operation as Written, Parameter, ParameterIn, ParameterStyle, RequestBody};
use serde_json::{Map, Value, json};

/// Names that models accept have no more characters.
const LONGEST_NAME: usize = 64;
/// How long a description may be before it is cut.
const LONGEST_TEXT: usize = 4_000;
/// Headers that the description does not decide.
const NOT_PARAMETERS: [&str; 3] = ["accept", "authorization", "content-type"];

/// An operation as a tool.
#[derive(Debug)]
pub struct Operation {
    /// The tool, as `tools/list` shows it.
    pub definition: Value,
    pub(crate) name: String,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) places: Vec<Place>,
    pub(crate) body: Option<Body>,
}

/// The part of the request that an argument goes to.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its name among the arguments, which may differ where two places have one name.
    pub(crate) argument: String,
    pub(crate) name: String,
    pub(crate) location: ParameterIn,
    pub(crate) is_deep: bool,
    pub(crate) is_exploded: bool,
    pub(crate) is_json: bool,
}

/// How the argument `body` is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Json,
    Form,
    Text,
}

/// An operation that cannot be a tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Skipped {
    pub operation: String,
    pub why: String,
}

pub(crate) fn operations(spec: &Spec, whole: &Value) -> (Vec<Operation>, Vec<Skipped>) {
    let mut operations = Vec::new();
    let mut skipped = Vec::new();
    let mut names = BTreeSet::new();
    for (path, method, written) in spec.operations() {
        match operation(spec, whole, &path, &method, written, &mut names) {
            Ok(operation) => operations.push(operation),
            Err(why) => skipped.push(Skipped { operation: format!("{method} {path}"), why }),
        }
    }
    (operations, skipped)
}

fn operation(
    spec: &Spec,
    whole: &Value,
    path: &str,
    method: &Method,
    written: &Written,
    names: &mut BTreeSet<String>,
) -> Result<Operation, String> {
    let mut properties = Map::new();
    let (mut required, mut places) = (Vec::new(), Vec::new());
    for parameter in parameters(spec, path, written)? {
        if parameter.location == ParameterIn::Cookie || is_ignored(&parameter) {
            continue;
        }
        let place = place(&parameter, &properties);
        let is_needed = parameter.required == Some(true) || parameter.location == ParameterIn::Path;
        required.extend(is_needed.then(|| Value::from(place.argument.as_str())));
        properties.insert(place.argument.clone(), schema_of(&parameter));
        places.push(place);
    }
    let request_body = written.request_body(spec).map_err(|error| error.to_string())?;
    let mut body = None;
    if let Some(request_body) = &request_body {
        let (kind, schema) = body_of(request_body)?;
        required.extend((request_body.required == Some(true)).then(|| Value::from("body")));
        properties.insert("body".to_owned(), schema);
        body = Some(kind);
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    add_definitions(&mut schema, whole);
    let name = unique(&name(path, method, written), names);
    let definition = definition(&name, path, method, written, &schema);
    Ok(Operation { definition, name, method: method.clone(), path: path.to_owned(), places, body })
}

/// The parameters of the operation, and those of its path that it does not replace.
fn parameters(spec: &Spec, path: &str, written: &Written) -> Result<Vec<Parameter>, String> {
    let mut all = written.parameters(spec).map_err(|error| error.to_string())?;
    let shared = spec.paths.as_ref().and_then(|paths| paths.get(path)).map(|item| item.parameters.as_slice());
    for parameter in shared.unwrap_or_default() {
        let parameter = parameter.resolve(spec).map_err(|error| error.to_string())?;
        if !all.iter().any(|own| own.name == parameter.name && own.location == parameter.location) {
            all.push(parameter);
        }
    }
    Ok(all)
}

fn is_ignored(parameter: &Parameter) -> bool {
    let is_header = parameter.location == ParameterIn::Header;
    is_header && NOT_PARAMETERS.contains(&parameter.name.to_lowercase().as_str())
}

fn place(parameter: &Parameter, taken: &Map<String, Value>) -> Place {
    let name = parameter.name.clone();
    let clashes = name == "body" || taken.contains_key(&name);
    let kind = match parameter.location {
        ParameterIn::Path => "path",
        ParameterIn::Query => "query",
        _ => "header",
    };
    let is_deep = parameter.style == Some(ParameterStyle::DeepObject);
    let is_form = parameter.location == ParameterIn::Query
        && parameter.style.is_none_or(|style| style == ParameterStyle::Form);
    Place {
        argument: if clashes { format!("{kind}_{name}") } else { name.clone() },
        name,
        location: parameter.location,
        is_deep,
        is_exploded: parameter.explode.unwrap_or(is_form),
        is_json: parameter.schema.is_none() && parameter.content.is_some(),
    }
}

fn schema_of(parameter: &Parameter) -> Value {
    let content = || parameter.content.as_ref()?.values().next()?.schema.as_ref();
    let schema = parameter.schema.as_ref().or_else(content);
    let mut schema = schema.and_then(|schema| serde_json::to_value(schema).ok()).unwrap_or_else(|| json!({}));
    if let (Some(text), Some(fields)) = (&parameter.description, schema.as_object_mut()) {
        fields.entry("description").or_insert_with(|| text.as_str().into());
    }
    schema
}

fn body_of(body: &RequestBody) -> Result<(Body, Value), String> {
    let kind = |media: &str| {
        let media = media.split(';').next().unwrap_or_default().trim().to_lowercase();
        match media.as_str() {
            "application/json" | "*/*" => Some(Body::Json),
            "application/x-www-form-urlencoded" => Some(Body::Form),
            "text/plain" => Some(Body::Text),
            other => other.ends_with("+json").then_some(Body::Json),
        }
    };
    let mut usable: Vec<_> =
        body.content.iter().filter_map(|(media, about)| Some((kind(media)?, about))).collect();
    usable.sort_by_key(|(kind, _)| *kind as u8);
    let Some((kind, about)) = usable.first() else {
        let media: Vec<&str> = body.content.keys().map(String::as_str).collect();
        return Err(format!("its body is {}", media.join(" or ")));
    };
    let schema = about.schema.as_ref().and_then(|schema| serde_json::to_value(schema).ok());
    let mut schema = schema.unwrap_or_else(|| json!({}));
    if let (Some(text), Some(fields)) = (&body.description, schema.as_object_mut()) {
        fields.entry("description").or_insert_with(|| text.as_str().into());
    }
    Ok((*kind, schema))
}

fn name(path: &str, method: &Method, written: &Written) -> String {
    let text = match &written.operation_id {
        Some(id) if !id.trim().is_empty() => id.clone(),
        _ => format!("{}{}", method.as_str().to_lowercase(), path.replace('/', "_")),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' };
    let name: String = text.chars().map(plain).filter(char::is_ascii).take(LONGEST_NAME).collect();
    name.trim_matches('_').to_owned()
}

fn unique(name: &str, names: &mut BTreeSet<String>) -> String {
    let mut candidate = name.to_owned();
    let mut number = 2;
    while !names.insert(candidate.clone()) {
        candidate = format!("{name}_{number}");
        number += 1;
    }
    candidate
}

fn definition(name: &str, path: &str, method: &Method, written: &Written, schema: &Value) -> Value {
    let texts = [written.summary.as_deref(), written.description.as_deref()];
    let texts: Vec<&str> =
        texts.into_iter().flatten().map(str::trim).filter(|text| !text.is_empty()).collect();
    let mut text = texts.join("\n\n");
    if text.is_empty() {
        text = format!("{method} {path}");
    }
    if let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT) {
        text.truncate(end);
        text.push('…');
    }
    if written.deprecated == Some(true) {
        text = format!("Deprecated. {text}");
    }
    let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let annotations = json!({
        "readOnlyHint": is_read,
        "destructiveHint": *method == Method::DELETE,
        "idempotentHint": is_read || matches!(*method, Method::PUT | Method::DELETE),
        "openWorldHint": true,
    });
    json!({ "name": name, "description": text, "inputSchema": schema, "annotations": annotations })
}

/// Moves references to the schemas of the description into the schema itself, with all that they refer to.
fn add_definitions(schema: &mut Value, whole: &Value) {
    let mut found: BTreeMap<String, Value> = BTreeMap::new();
    let mut open = Vec::new();
    relocate(schema, &mut open);
    while let Some(name) = open.pop() {
        if found.contains_key(&name) {
            continue;
        }
        let mut target = whole["components"]["schemas"].get(&name).cloned().unwrap_or_else(|| json!({}));
        relocate(&mut target, &mut open);
        found.insert(name, target);
    }
    if !found.is_empty() {
        schema["$defs"] = found.into_iter().collect::<Map<_, _>>().into();
    }
}

/// Rewrites references and collects their names. What is not a schema of this description can have any value.
fn relocate(value: &mut Value, open: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref").cloned() {
                match target.strip_prefix("#/components/schemas/").filter(|name| !name.contains('/')) {
                    Some(name) => {
                        open.push(name.replace("~1", "/").replace("~0", "~"));
                        fields.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
                    }
                    None => drop(fields.remove("$ref")),
                }
            }
            // Mappings of a discriminator name schemas that are not moved.
            fields.remove("discriminator");
            fields.values_mut().for_each(|inner| relocate(inner, open));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| relocate(inner, open)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
