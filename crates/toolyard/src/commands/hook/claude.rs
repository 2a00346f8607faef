//! What Claude Code accepts from a hook. It reads stdout only if the exit status is 0, so notes are there, too; each
//! event allows other changes (`docs/guide/hooks.md` has the table).

use serde_json::{Map, Value, json};

use super::response;

/// What hooks changed and noted, as Claude Code reads it on stdout.
#[derive(Debug, PartialEq)]
pub(super) enum Output {
    Json(Value),
    Text(String),
}

/// The output for the event `name`, unless there is nothing to write.
pub(super) fn output(
    name: &str,
    input: &Map<String, Value>,
    change: &Map<String, Value>,
    notes: &[String],
) -> Option<Output> {
    let mut own = Map::from_iter([("hookEventName".to_owned(), name.into())]);
    let mut context: Vec<String> = Vec::new();
    match name {
        "PreToolUse" => {
            if let Some(arguments) = change.get("arguments") {
                own.insert("updatedInput".to_owned(), arguments.clone());
            }
        }
        "PostToolUse" => {
            if let Some(result) = change.get("result") {
                own.extend(updated(input, result));
            }
        }
        "UserPromptSubmit" => {
            let prompt = input.get("prompt").and_then(Value::as_str).unwrap_or_default();
            let changed = change.get("prompt").and_then(Value::as_str);
            context.extend(changed.map(|changed| added(prompt, changed)));
        }
        "SessionStart" => {}
        "PreCompact" => return to_keep(change, notes),
        // What Claude Code adds to the conversation here would make it go on.
        _ => return (!notes.is_empty()).then(|| Output::Json(json!({ "systemMessage": notes.join("\n") }))),
    }
    context.extend_from_slice(notes);
    context.retain(|text| !text.is_empty());
    if !context.is_empty() {
        own.insert("additionalContext".to_owned(), context.join("\n").into());
    }
    (own.len() > 1).then(|| Output::Json(json!({ "hookSpecificOutput": own })))
}

/// The changed result, in the form of the tool's response. Before 2.1.121, Claude Code knew only the second name.
fn updated(input: &Map<String, Value>, changed: &Value) -> Map<String, Value> {
    let response = input.get("tool_response").unwrap_or(&Value::Null);
    let is_mcp = input.get("tool_name").and_then(Value::as_str).is_some_and(|tool| tool.starts_with("mcp__"));
    let new = response::changed(response, changed, is_mcp);
    let mut own = Map::from_iter([("updatedToolOutput".to_owned(), new.clone())]);
    if is_mcp {
        own.insert("updatedMCPToolOutput".to_owned(), new);
    }
    own
}

/// What hooks added to a prompt: Claude Code keeps the prompt as it is and adds a text to it.
fn added(prompt: &str, changed: &str) -> String {
    let before = changed.strip_suffix(prompt).map(|before| (before, ""));
    let after = || changed.strip_prefix(prompt).map(|after| ("", after));
    let Some((before, after)) = before.or_else(after).or_else(|| changed.split_once(prompt)) else {
        return format!("The prompt is to be read as:\n{changed}");
    };
    let parts = [before.trim(), after.trim()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Claude Code adds this text to its instructions for the summary.
fn to_keep(change: &Map<String, Value>, notes: &[String]) -> Option<Output> {
    let lines = change.get("keep").and_then(Value::as_array);
    let lines: Vec<&str> = lines.into_iter().flatten().filter_map(Value::as_str).collect();
    let mut texts = Vec::new();
    if !lines.is_empty() {
        texts.push(format!("Keep these lines in the summary:\n{}", lines.join("\n")));
    }
    texts.extend_from_slice(notes);
    (!texts.is_empty()).then(|| Output::Text(texts.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, input: &Value, change: &Value, notes: &[&str]) -> Value {
        let notes: Vec<String> = notes.iter().map(|note| (*note).to_owned()).collect();
        match output(name, input.as_object().unwrap(), change.as_object().unwrap(), &notes) {
            Some(Output::Json(value)) => value,
            Some(Output::Text(text)) => text.into(),
            None => Value::Null,
        }
    }

    #[test]
    fn only_what_hooks_add_to_a_prompt_is_added_to_it() {
        let context = |changed: &str| {
            let value = written(
                "UserPromptSubmit",
                &json!({ "prompt": "do it" }),
                &json!({ "prompt": changed }),
                &[],
            );
            value["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
        };
        assert_eq!(context("a rule\n\ndo it"), "a rule");
        assert_eq!(context("do it, please\n\ndo it"), "do it, please");
        assert_eq!(context("do it\n\nmore"), "more");
        assert_eq!(context("a rule\n\ndo it\n\nmore"), "a rule\nmore");
        assert_eq!(context("something else"), "The prompt is to be read as:\nsomething else");
    }

    #[test]
    fn notes_reach_the_model_where_it_reads_them_and_else_the_user() {
        for name in ["PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart"] {
            let value = written(name, &json!({}), &json!({}), &["[a] one", "[b] two"]);
            let own = json!({ "additionalContext": "[a] one\n[b] two", "hookEventName": name });
            assert_eq!(value, json!({ "hookSpecificOutput": own }));
        }
        for name in ["Stop", "SubagentStop", "Notification"] {
            assert_eq!(
                written(name, &json!({}), &json!({}), &["[a] one"]),
                json!({ "systemMessage": "[a] one" })
            );
        }
        for name in ["PreToolUse", "PostToolUse", "SessionStart", "PreCompact", "Stop"] {
            assert_eq!(written(name, &json!({}), &json!({ "other": 1 }), &[]), Value::Null, "{name}");
        }
    }

    #[test]
    fn lines_to_keep_are_instructions_for_the_summary() {
        let value =
            written("PreCompact", &json!({}), &json!({ "keep": ["DECISION: rust", "a"] }), &["[x] note"]);
        assert_eq!(value, "Keep these lines in the summary:\nDECISION: rust\na\n[x] note");
    }

    #[test]
    fn a_result_keeps_the_form_of_its_tool() {
        let input = json!({ "tool_name": "Bash", "tool_response": { "stdout": "a", "stderr": "", "isImage": false } });
        let changed = json!({ "content": [{ "type": "text", "text": "b" }] });
        let value = written("PostToolUse", &input, &json!({ "result": changed }), &[]);
        let new = json!({ "stdout": "b", "stderr": "", "isImage": false });
        assert_eq!(value["hookSpecificOutput"]["updatedToolOutput"], new);
        assert_eq!(value["hookSpecificOutput"].get("updatedMCPToolOutput"), None);
        let input = json!({ "tool_name": "mcp__x__y", "tool_response": [{ "type": "text", "text": "a" }] });
        let value = written("PostToolUse", &input, &json!({ "result": changed }), &[]);
        for key in ["updatedToolOutput", "updatedMCPToolOutput"] {
            assert_eq!(value["hookSpecificOutput"][key], json!([{ "type": "text", "text": "b" }]), "{key}");
        }
    }
}
