//! Claude Code: one line for each message, linked by `parentUuid` to a tree whose branches are forks.

use serde_json::Value;

use super::{About, Edit, Message, Step, call, owned, text};

pub(super) fn step(line: &Value) -> Step {
    match text(line, "/type") {
        Some("user" | "assistant") if line.get("message").is_some() => {
            // Conversations of sub-agents are not part of the main one.
            if is_of_agent(line) {
                return Step::About;
            }
            Step::Message { id: owned(line, "/uuid"), parent: owned(line, "/parentUuid") }
        }
        // They have no text, but messages hang below them.
        Some("attachment" | "system") if text(line, "/uuid").is_some() => {
            Step::Message { id: owned(line, "/uuid"), parent: owned(line, "/parentUuid") }
        }
        Some(
            "summary"
            | "ai-title"
            | "custom-title"
            | "queue-operation"
            | "last-prompt"
            | "file-history-snapshot"
            | "mode",
        ) => Step::About,
        _ => Step::Unknown,
    }
}

pub(super) fn message(line: &Value) -> Option<Message> {
    let role = text(line, "/message/role")?;
    let mut message =
        Message { role: role.to_owned(), time: owned(line, "/timestamp"), ..Message::default() };
    match line.pointer("/message/content")? {
        Value::String(content) => message.text.clone_from(content),
        Value::Array(blocks) => {
            let parts: Vec<String> =
                blocks.iter().filter_map(|block| block_text(block, &mut message.edits)).collect();
            message.text = parts.join("\n");
        }
        _ => return None,
    }
    (!message.text.is_empty()).then_some(message)
}

/// The message of a sub-agent. Older versions write it between those of the session, newer ones into a file of its own.
pub(super) fn of_agent(line: &Value) -> Option<Message> {
    let message = message(line).filter(|_| is_of_agent(line))?;
    let agent = owned(line, "/agentId").unwrap_or_else(|| "sub-agent".to_owned());
    Some(Message { agent: Some(agent), ..message })
}

fn is_of_agent(line: &Value) -> bool {
    line.get("isSidechain") == Some(&Value::Bool(true))
}

fn block_text(block: &Value, edits: &mut Vec<Edit>) -> Option<String> {
    match text(block, "/type")? {
        "text" => owned(block, "/text"),
        "tool_use" => {
            let input = block.get("input")?;
            edits.extend(edits_of(text(block, "/name")?, input));
            Some(call(text(block, "/name")?, input))
        }
        "tool_result" => {
            let content = match block.get("content")? {
                Value::String(content) => content.clone(),
                Value::Array(parts) => {
                    parts.iter().filter_map(|part| text(part, "/text")).collect::<Vec<_>>().join("\n")
                }
                _ => return None,
            };
            Some(format!("[result] {content}"))
        }
        _ => None,
    }
}

fn edits_of(tool: &str, input: &Value) -> Vec<Edit> {
    let Some(path) = owned(input, "/file_path").or_else(|| owned(input, "/notebook_path")) else {
        return Vec::new();
    };
    let edit = |added: &str| Edit { path: path.clone(), added: added.to_owned() };
    match tool {
        "Edit" => text(input, "/new_string").map(edit).into_iter().collect(),
        "Write" => text(input, "/content").map(edit).into_iter().collect(),
        "NotebookEdit" => text(input, "/new_source").map(edit).into_iter().collect(),
        "MultiEdit" => {
            let edits = input.get("edits").and_then(Value::as_array);
            edits.into_iter().flatten().filter_map(|one| text(one, "/new_string")).map(edit).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn describe(line: &Value, about: &mut About) {
    about.id = about.id.take().or_else(|| owned(line, "/sessionId"));
    about.folder = about.folder.take().or_else(|| owned(line, "/cwd"));
    let summary = match text(line, "/type") {
        Some("summary") => owned(line, "/summary"),
        Some("user") if line.get("isMeta") != Some(&Value::Bool(true)) => {
            message(line).map(|message| message.text)
        }
        _ => None,
    };
    about.title =
        about.title.take().or(summary.filter(|text| !text.starts_with('<') && !text.starts_with('[')));
}
