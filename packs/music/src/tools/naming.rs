//! `apply_naming_scheme`: the path that a template gives for some values. Touches nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolyard_tool::{ToolError, WithText, tool};

use crate::naming::{Template, Values};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct NamingScheme {
    /// Such as `{album_artist}/{album} ({year|0000})/{track:02d} {title}.{ext}`.
    template: String,
    /// The values: texts and numbers by field, as `read_metadata` gives them.
    metadata: Map<String, Value>,
    /// Replace what no file name should hold.
    #[serde(default = "yes")]
    sanitise: bool,
}

fn yes() -> bool {
    true
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Named {
    path: String,
    sanitised: bool,
}

/// Makes a path from a template and the tags of a file. `{name}` is replaced by a value, `{name|fallback}` by
/// one that may be missing, `{name:02d}` by a number with leading zeros. Nothing is renamed.
#[tool(read_only, idempotent)]
pub(crate) async fn apply_naming_scheme(args: NamingScheme) -> Result<WithText<Named>, ToolError> {
    let template = Template::parse(&args.template)?;
    let path = template.render(&values(args.metadata)?, args.sanitise)?;
    Ok(WithText::new(Named { path: path.clone(), sanitised: args.sanitise }, path))
}

fn values(metadata: Map<String, Value>) -> Result<Values, ToolError> {
    let mut values = Values::new();
    for (name, value) in metadata {
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) if number.as_f64().is_some_and(|number| number >= 0.0) => {
                number.to_string()
            }
            Value::Bool(flag) => flag.to_string(),
            Value::Null => continue,
            Value::Number(_) => {
                return Err(ToolError::new(format!("`{name}` must not be negative"))
                    .hint("leave it out if it is unknown"));
            }
            Value::Array(_) | Value::Object(_) => {
                return Err(ToolError::new(format!("`{name}` must be a text or a number"))
                    .hint("join several values into one text"));
            }
        };
        values.insert(name, text);
    }
    Ok(values)
}
