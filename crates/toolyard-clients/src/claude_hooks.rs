//! The hooks of Claude Code: `toolyard hook POINT` in its `settings.json`, put there and taken out again. Hooks of
//! others stay as they are.

use serde_json::{Map, Value, json};

/// The names of Claude Code's events, each with the matching point of Toolyard.
const EVENTS: [(&str, &str); 8] = [
    ("PreToolUse", "pre_tool_call"),
    ("PostToolUse", "post_tool_call"),
    ("UserPromptSubmit", "pre_model_invoke"),
    ("SessionStart", "session_start"),
    ("Stop", "session_idle"),
    ("PreCompact", "pre_compact"),
    ("Notification", "notification"),
    ("SubagentStop", "subagent_stop"),
];

/// Seconds that Claude Code waits for one of them, after which it goes on without. As long as the longest hook.
const TIMEOUT: u32 = 600;

/// The settings with our hooks, which run `command`; an error names what is in the way.
pub fn with_hooks(settings: Option<&str>, command: &str) -> Result<String, String> {
    let mut settings = without(settings)?;
    let hooks = settings.entry("hooks").or_insert_with(|| json!({}));
    let Some(hooks) = hooks.as_object_mut() else { return Err("`hooks` is not an object".to_owned()) };
    for (event, point) in EVENTS {
        let groups = hooks.entry(event).or_insert_with(|| json!([]));
        let Some(groups) = groups.as_array_mut() else {
            return Err(format!("`hooks.{event}` is not a list"));
        };
        let hook =
            json!({ "type": "command", "command": format!("{command} hook {point}"), "timeout": TIMEOUT });
        let mut group = json!({ "hooks": [hook] });
        if event.ends_with("ToolUse") {
            group["matcher"] = json!("*");
        }
        groups.push(group);
    }
    Ok(text(&settings))
}

/// The settings without our hooks.
pub fn without_hooks(settings: &str) -> Result<String, String> {
    Ok(text(&without(Some(settings))?))
}

/// Whether our hooks are there.
pub fn has_hooks(settings: &str) -> bool {
    let value: Value = serde_json::from_str(settings).unwrap_or_default();
    let groups =
        value["hooks"].as_object().into_iter().flat_map(Map::values).filter_map(Value::as_array).flatten();
    let mut hooks = groups.filter_map(|group| group["hooks"].as_array()).flatten();
    hooks.any(is_ours)
}

fn without(settings: Option<&str>) -> Result<Map<String, Value>, String> {
    let text = settings.unwrap_or_default().trim();
    let mut settings: Map<String, Value> = match text {
        "" => Map::new(),
        text => serde_json::from_str(text).map_err(|error| format!("it is not a JSON object: {error}"))?,
    };
    let Some(hooks) = settings.get_mut("hooks").and_then(Value::as_object_mut) else { return Ok(settings) };
    for groups in hooks.values_mut().filter_map(Value::as_array_mut) {
        for group in groups.iter_mut() {
            if let Some(hooks) = group["hooks"].as_array_mut() {
                hooks.retain(|hook| !is_ours(hook));
            }
        }
        groups.retain(|group| group["hooks"].as_array().is_none_or(|hooks| !hooks.is_empty()));
    }
    hooks.retain(|_, groups| groups.as_array().is_none_or(|groups| !groups.is_empty()));
    if hooks.is_empty() {
        settings.remove("hooks");
    }
    Ok(settings)
}

/// A command that ends in one of our points, as [`with_hooks`] writes it.
fn is_ours(hook: &Value) -> bool {
    let command = hook["command"].as_str().unwrap_or_default();
    let is_toolyard = command.contains("toolyard");
    is_toolyard && EVENTS.iter().any(|(_, point)| command.ends_with(&format!(" hook {point}")))
}

fn text(settings: &Map<String, Value>) -> String {
    let mut text = serde_json::to_string_pretty(settings).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = r#"{"model":"opus","hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"lint"}]}]},"z":1}"#;

    #[test]
    fn hooks_are_put_in_once_and_taken_out_without_a_trace() {
        let with = with_hooks(Some(OTHERS), "/bin/toolyard").unwrap();
        assert_eq!(with_hooks(Some(&with), "/bin/toolyard").unwrap(), with);
        assert!(has_hooks(&with) && !has_hooks(OTHERS));
        let value: Value = serde_json::from_str(&with).unwrap();
        let before = value["hooks"]["PreToolUse"].as_array().unwrap();
        assert_eq!(before[0]["hooks"][0]["command"], "lint");
        assert_eq!(before[1]["hooks"][0]["command"], "/bin/toolyard hook pre_tool_call");
        assert_eq!(value["hooks"].as_object().unwrap().len(), EVENTS.len());
        assert_eq!(before[1]["hooks"][0]["timeout"], 600, "a hook may take 10 minutes");
        let without: Value = serde_json::from_str(&without_hooks(&with).unwrap()).unwrap();
        assert_eq!(without, serde_json::from_str::<Value>(OTHERS).unwrap());
        let new = with_hooks(None, "toolyard").unwrap();
        assert_eq!(without_hooks(&new).unwrap(), "{}\n");
    }

    #[test]
    fn a_file_of_another_form_is_not_touched() {
        for wrong in ["[]", "{", r#"{"hooks":[]}"#, r#"{"hooks":{"Stop":{}}}"#] {
            assert!(with_hooks(Some(wrong), "toolyard").is_err(), "{wrong}");
        }
    }
}
