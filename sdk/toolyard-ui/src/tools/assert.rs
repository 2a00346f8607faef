//! `AssertElement`: a check that fails, so that a recorded walk through an app is a test.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Problems, ToolError, tool};

use super::look::require_selector;
use super::{Operator, Selector};
use crate::Tree;

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Assert {
    /// The path of the element.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Its name, automation id or type.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Only elements of this type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// Whether it must be visible; `false` requires that it is hidden or does not exist.
    #[serde(default = "yes")]
    visible: bool,
    /// Text that its name or its value must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Properties that it must have, for instance `{"checked": "true"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, String>,
}

fn yes() -> bool {
    true
}

pub(super) fn assert_has_selector(args: &Assert, problems: &mut Problems) {
    require_selector(args.path.as_ref(), args.name.as_ref(), problems);
}

/// Fails unless an element is as described: visible or not, with a text, with properties.
#[tool(name = "AssertElement", read_only, check = assert_has_selector, rule = "Give either `path` or `name`.")]
pub(crate) async fn assert_element(operator: &Operator, args: Assert) -> Result<&'static str, ToolError> {
    let tree = operator.tree().await?;
    let selector = Selector::new(args.path.as_ref(), args.name.as_ref(), args.kind.as_ref());
    let element = selector.find(&tree)?.filter(|&position| tree.is_visible(position));
    let wrong = match element {
        None if args.visible => vec!["it is not visible, or does not exist".to_owned()],
        None => Vec::new(),
        Some(_) if !args.visible => vec!["it is visible".to_owned()],
        Some(element) => differences(&args, &tree, element),
    };
    if !wrong.is_empty() {
        let why = format!("the element {} is not as expected: {}", selector.words(), wrong.join("; "));
        return Err(ToolError::new(why));
    }
    operator.record("AssertElement", serde_json::to_value(&args).unwrap_or_default());
    Ok("as expected")
}

fn differences(args: &Assert, tree: &Tree, element: usize) -> Vec<String> {
    let info = tree.info(element);
    let mut wrong = Vec::new();
    if let Some(text) = &args.text {
        let value = info.properties.get("value").map_or("", String::as_str);
        let name = info.name.as_deref().unwrap_or_default();
        if !name.contains(text.as_str()) && !value.contains(text.as_str()) {
            wrong.push(format!("`{text}` is neither in its name ({name:?}) nor in its value ({value:?})"));
        }
    }
    for (key, expected) in &args.properties {
        match info.properties.get(key) {
            Some(is) if is == expected => {}
            Some(is) => wrong.push(format!("`{key}` is {is:?}, not {expected:?}")),
            None => wrong.push(format!("it has no `{key}`")),
        }
    }
    wrong
}
