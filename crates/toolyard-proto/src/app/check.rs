//! Checks what an app registers, tool by tool: a bad tool is refused by name with the reason, and the good
//! ones are kept.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::Raw;
use crate::name::{UpstreamId, canonical};

/// The longest name of a tool.
const LONGEST_NAME: usize = 128;
/// The longest description, in characters.
const LONGEST_DESCRIPTION: usize = 500;
/// How many tools one app may offer.
const MOST_TOOLS: usize = 5_000;

/// A valid tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    /// Its name below the app's id.
    pub name: String,
    /// Its name as the app gave it, in JSON, which is used to call it.
    pub wire: Raw,
    /// Its definition for the catalog, under its own name.
    pub definition: Raw,
}

impl Offered {
    pub fn canonical(&self, app: &UpstreamId) -> String {
        canonical(app, &self.name)
    }
}

/// An invalid tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedTool {
    pub name: String,
    pub reason: String,
}

/// Sorts the tools of an app into good ones and bad ones. The app is listed under its id, and may use another name for
/// itself; either may precede the name of a tool. `schema` checks an input schema, and may
/// stamp it.
pub fn check_tools(
    app: (&UpstreamId, &str),
    tools: &[Raw],
    schema: impl Fn(&Raw) -> Result<Raw, String>,
) -> (Vec<Offered>, Vec<RefusedTool>) {
    let mut good = Vec::new();
    let mut bad = Vec::new();
    let mut taken = HashSet::new();
    for (at, tool) in tools.iter().enumerate() {
        let given_name = tool.member("name").and_then(|name| name.as_string());
        let checked = match &given_name {
            _ if at >= MOST_TOOLS => Err(format!("an app may offer {MOST_TOOLS} tools at most")),
            _ if !tool.is_object() => Err("a tool must be a JSON object".to_owned()),
            None => Err("`name` must be a string".to_owned()),
            Some(given_name) => check_tool(app, given_name, tool, &schema),
        };
        let checked = checked.and_then(|offered| {
            let is_new = taken.insert(offered.name.clone());
            if is_new { Ok(offered) } else { Err("the app offers another tool of this name".to_owned()) }
        });
        match checked {
            Ok(offered) => good.push(offered),
            Err(reason) => {
                bad.push(RefusedTool { name: given_name.unwrap_or_else(|| format!("tools[{at}]")), reason });
            }
        }
    }
    (good, bad)
}

fn check_tool(
    app: (&UpstreamId, &str),
    given_name: &str,
    tool: &Raw,
    schema: impl Fn(&Raw) -> Result<Raw, String>,
) -> Result<Offered, String> {
    let name = own_name(app, given_name)?;
    let description = tool.member("description").and_then(|text| text.as_string()).unwrap_or_default();
    match description.chars().count() {
        0 => return Err("it needs a `description`: say in a sentence what it does".into()),
        1..=LONGEST_DESCRIPTION => {}
        length => {
            return Err(format!(
                "its `description` has {length} characters, and {LONGEST_DESCRIPTION} are allowed"
            ));
        }
    }
    let given = tool.member("inputSchema").filter(|schema| !schema.is_null());
    let input = schema(&object_schema(given)?)?;
    let definition = tool.with("name", &Raw::from_serialize(&name)).with("inputSchema", &input);
    Ok(Offered { name: name.to_owned(), wire: Raw::from_serialize(&given_name), definition })
}

/// The name without the app's own id before it. An app must not use the ids of other apps.
fn own_name<'a>((app, own): (&UpstreamId, &str), given_name: &'a str) -> Result<&'a str, String> {
    let is_own = |id: &str| id.eq_ignore_ascii_case(app.as_str()) || id.eq_ignore_ascii_case(own);
    let name = match given_name.split_once(':') {
        None => given_name,
        Some((id, name)) if is_own(id) => name,
        Some((id, _)) => {
            return Err(format!(
                "an app can only offer tools under its own id: write `{app}:…` or no prefix, not `{id}:…`"
            ));
        }
    };
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !starts_well || name.len() > LONGEST_NAME || !name.chars().all(is_legal) {
        return Err(format!(
            "its name must be a letter, then letters, digits, `_`, `-` and `.`, {LONGEST_NAME} at most"
        ));
    }
    Ok(name)
}

/// Arguments are always an object, so a schema without a type gets that type.
fn object_schema(given: Option<Raw>) -> Result<Raw, String> {
    let object = Raw::from_serialize(&"object");
    let Some(schema) = given else { return Ok(Raw::empty_object().with("type", &object)) };
    if !schema.is_object() {
        return Err("its `inputSchema` must be a JSON object".into());
    }
    match schema.member("type") {
        None => Ok(schema.with("type", &object)),
        Some(kind) if kind == object => Ok(schema),
        Some(kind) => Err(format!("its `inputSchema` must be of type \"object\", not {}", kind.as_str())),
    }
}
