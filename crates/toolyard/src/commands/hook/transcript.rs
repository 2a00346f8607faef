//! The text of a conversation of a client, from the file that the client names. This command reads it with the rights
//! of the user who runs the client; the gateway never reads a file that a request names.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

/// How much of the end of the file is read.
const LARGEST: u64 = 4 * 1024 * 1024;

/// The last texts of the user and the model, oldest first. The file has one message as JSON in each line.
pub(super) fn read(path: &Path) -> Option<String> {
    // A pipe could keep the client waiting.
    let size = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(size.saturating_sub(LARGEST))).ok()?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line of the part may be cut; it is not JSON then.
    let texts = text.lines().filter_map(|line| text_of(&serde_json::from_str(line).ok()?));
    Some(texts.collect::<Vec<_>>().join("\n"))
}

/// The text of a message. Calls of tools and their results have none.
fn text_of(line: &Value) -> Option<String> {
    if !matches!(line["type"].as_str(), Some("user" | "assistant")) || line["isMeta"] == true {
        return None;
    }
    match &line["message"]["content"] {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter(|block| block["type"] == "text")
                .filter_map(|block| block["text"].as_str())
                .collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(role: &str, content: &Value) -> String {
        json!({ "type": role, "message": { "role": role, "content": content }, "sessionId": "s" }).to_string()
    }

    #[test]
    fn only_texts_of_the_user_and_the_model_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let lines = [
            json!({ "type": "summary", "summary": "no" }).to_string(),
            line("user", &json!("DECISION: rust")),
            line(
                "assistant",
                &json!([{ "type": "text", "text": "fine" }, { "type": "tool_use", "name": "Bash" }]),
            ),
            line("user", &json!([{ "type": "tool_result", "content": "TODO: not a text" }])),
            "no json".to_owned(),
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        assert_eq!(read(&path).as_deref(), Some("DECISION: rust\nfine"));
        assert_eq!(read(&folder.path().join("none")), None);
        assert_eq!(read(folder.path()), None, "a folder");
    }

    #[test]
    fn of_a_long_conversation_the_end_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let long = "x".repeat(usize::try_from(LARGEST).unwrap());
        let lines = [line("user", &json!("first")), line("user", &json!(long)), line("user", &json!("last"))];
        std::fs::write(&path, lines.join("\n")).unwrap();
        assert_eq!(read(&path).as_deref(), Some("last"));
    }
}
