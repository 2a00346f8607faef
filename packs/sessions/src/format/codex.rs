//! Codex: `{timestamp, type, payload}`; the conversation is in the lines of type `response_item`, in order.

use std::path::Path;

use serde_json::Value;

use super::{About, Edit, Message, Step, added_by_patch, call, owned, parsed, text};

pub(super) fn step(line: &Value) -> Step {
    match text(line, "/type") {
        Some("response_item") => Step::Message { id: None, parent: None },
        Some(
            "session_meta" | "turn_context" | "event_msg" | "token_usage_record" | "world_state"
            | "compacted",
        ) => Step::About,
        _ => Step::Unknown,
    }
}

pub(super) fn message(line: &Value) -> Option<Message> {
    let payload = line.get("payload")?;
    let (role, text, edits) = match text(payload, "/type")? {
        "message" => {
            let parts = payload.get("content")?.as_array()?;
            let words: Vec<&str> = parts.iter().filter_map(|part| text(part, "/text")).collect();
            (text(payload, "/role")?, words.join("\n"), Vec::new())
        }
        "function_call" => {
            let (name, arguments) = (text(payload, "/name")?, text(payload, "/arguments")?);
            ("assistant", call(name, &arguments.into()), edits_of(name, arguments))
        }
        "custom_tool_call" => {
            let (name, input) = (text(payload, "/name")?, text(payload, "/input")?);
            ("assistant", call(name, &input.into()), added_by_patch(input))
        }
        "function_call_output" | "custom_tool_call_output" => {
            let output = payload.get("output")?;
            let output = output.as_str().map_or_else(|| output.to_string(), ToOwned::to_owned);
            ("tool", format!("[result] {output}"), Vec::new())
        }
        _ => return None,
    };
    // What Codex adds to each session by itself is not part of the conversation.
    let is_context = text.starts_with("<environment_context>") || text.starts_with("<user_instructions>");
    (!text.is_empty() && !is_context).then(|| Message {
        role: role.to_owned(),
        time: owned(line, "/timestamp"),
        text,
        edits,
        agent: None,
    })
}

/// A patch is an argument of its own tool, or of a command.
fn edits_of(name: &str, arguments: &str) -> Vec<Edit> {
    let arguments = parsed(arguments);
    if name == "apply_patch" {
        return text(&arguments, "/input").map(added_by_patch).unwrap_or_default();
    }
    // Words, or the line of a shell: `apply_patch <<'EOF' …`.
    let words = arguments.get("command").and_then(Value::as_array).into_iter().flatten();
    let words = words.chain(arguments.get("command")).chain(arguments.get("cmd"));
    let patch = words.filter_map(Value::as_str).find(|word| word.contains("*** Begin Patch"));
    let mut edits = patch.map(added_by_patch).unwrap_or_default();
    if let Some(folder) = text(&arguments, "/workdir") {
        for edit in &mut edits {
            edit.path = Path::new(folder).join(&edit.path).display().to_string();
        }
    }
    edits
}

pub(super) fn describe(line: &Value, about: &mut About) {
    if text(line, "/type") == Some("session_meta") {
        about.id = owned(line, "/payload/id").or(about.id.take());
        about.folder = owned(line, "/payload/cwd").or(about.folder.take());
    } else if about.title.is_none()
        && text(line, "/payload/role") == Some("user")
        && let Some(message) = message(line)
    {
        about.title = Some(message.text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_is_found_in_every_form_in_which_codex_has_run_it() {
        let patch = "*** Begin Patch\n*** Add File: tower.txt\n+built\n*** End Patch";
        let line = format!("apply_patch <<'EOF'\n{patch}\nEOF\n");
        let check = |name: &str, arguments: Value, path: &str| {
            let edits = edits_of(name, &arguments.to_string());
            assert_eq!(edits, [Edit { path: path.into(), added: "built\n".into() }], "{name} {arguments}");
        };
        check("apply_patch", json!({ "input": patch }), "tower.txt");
        check("shell", json!({ "command": ["apply_patch", patch] }), "tower.txt");
        check("shell", json!({ "command": ["bash", "-lc", line] }), "tower.txt");
        check("shell_command", json!({ "command": line }), "tower.txt");
        // Since 0.166.
        check("exec_command", json!({ "cmd": line }), "tower.txt");
        check("exec_command", json!({ "cmd": line, "workdir": "/tmp/yard" }), "/tmp/yard/tower.txt");
        assert_eq!(edits_of("exec_command", &json!({ "cmd": "cat tower.txt" }).to_string()), []);
    }
}
