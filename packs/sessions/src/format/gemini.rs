//! Gemini CLI: a header, messages that are written again whenever they change, patches of the header (`$set`), and marks
//! that take messages back (`$rewindTo`).

use serde_json::Value;

use super::{About, Edit, Message, Step, call, owned, text};

pub(super) fn step(line: &Value) -> Step {
    if let Some(id) = owned(line, "/$rewindTo") {
        return Step::Rewind(id);
    }
    if let Some(messages) = line.pointer("/$set/messages").and_then(Value::as_array) {
        return Step::Several(messages.iter().filter_map(|message| owned(message, "/id")).collect());
    }
    if line.get("$set").is_some() || line.get("sessionId").is_some() {
        return Step::About;
    }
    match owned(line, "/id") {
        Some(id) => Step::Message { id: Some(id), parent: None },
        None => Step::Unknown,
    }
}

pub(super) fn message(line: &Value, id: Option<&str>) -> Option<Message> {
    let record = match (id, line.pointer("/$set/messages").and_then(Value::as_array)) {
        (Some(id), Some(messages)) => messages.iter().find(|message| text(message, "/id") == Some(id))?,
        _ => line,
    };
    let role = match text(record, "/type")? {
        "user" => "user",
        "gemini" => "assistant",
        _ => return None,
    };
    let mut edits = Vec::new();
    let mut parts = vec![content(record.get("content")?)];
    for one in record.get("toolCalls").and_then(Value::as_array).into_iter().flatten() {
        let (Some(name), Some(args)) = (text(one, "/name"), one.get("args")) else { continue };
        edits.extend(edit_of(name, args));
        parts.push(call(name, args));
    }
    let words = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
    (!words.is_empty()).then(|| Message {
        role: role.to_owned(),
        time: owned(record, "/timestamp"),
        text: words,
        edits,
        agent: None,
    })
}

/// A text, a part with a text, or a list of them.
fn content(value: &Value) -> String {
    match value {
        Value::String(content) => content.clone(),
        Value::Array(parts) => parts.iter().map(content).collect::<Vec<_>>().join("\n"),
        part => text(part, "/text").unwrap_or_default().to_owned(),
    }
}

fn edit_of(tool: &str, args: &Value) -> Option<Edit> {
    let added = match tool {
        "replace" | "edit" => text(args, "/new_string")?,
        "write_file" => text(args, "/content")?,
        _ => return None,
    };
    Some(Edit { path: owned(args, "/file_path")?, added: added.to_owned() })
}

pub(super) fn describe(line: &Value, about: &mut About) {
    about.id = about.id.take().or_else(|| owned(line, "/sessionId"));
    about.folder = about.folder.take().or_else(|| owned(line, "/directories/0"));
    about.title = owned(line, "/$set/summary").or(about.title.take());
    if about.title.is_none() && text(line, "/type") == Some("user") {
        about.title = message(line, None).map(|message| message.text);
    }
}
