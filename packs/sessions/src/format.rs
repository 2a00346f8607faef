//! The forms of transcripts. Lines of unknown types are skipped and counted.

mod claude;
mod codex;
mod gemini;

use serde::Deserialize as _;
use serde_json::Value;

use crate::config::Program;
use crate::redact;

/// How much is shown of what a tool was called with.
const MOST_INPUT: usize = 300;

/// One message of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Message {
    pub(crate) role: String,
    pub(crate) time: Option<String>,
    /// The text of the message, with a line for each call of a tool.
    pub(crate) text: String,
    /// Files that the message changed.
    pub(crate) edits: Vec<Edit>,
    /// The sub-agent that it is from, if it is not of the conversation itself.
    pub(crate) agent: Option<String>,
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) path: String,
    /// The text that was put in.
    pub(crate) added: String,
}

/// The effect of a line on the order of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A message below another one; the same id again replaces it.
    Message {
        id: Option<String>,
        parent: Option<String>,
    },
    /// Several messages in one line, by their ids.
    Several(Vec<String>),
    /// Everything from this message on was taken back.
    Rewind(String),
    /// Something about the session itself.
    About,
    Unknown,
}

/// The head of a session: its id, folder and title.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) id: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) title: Option<String>,
}

pub(crate) fn step(program: Program, line: &Value) -> Step {
    match program {
        Program::Claude => claude::step(line),
        Program::Codex => codex::step(line),
        Program::Gemini => gemini::step(line),
    }
}

/// The message of a line; of one of several by its id.
pub(crate) fn message(program: Program, line: &Value, id: Option<&str>) -> Option<Message> {
    match program {
        Program::Claude => claude::message(line),
        Program::Codex => codex::message(line),
        Program::Gemini => gemini::message(line, id),
    }
}

/// All messages of a line, also those of sub-agents.
pub(crate) fn messages(program: Program, line: &Value) -> Vec<Message> {
    match step(program, line) {
        Step::Several(ids) => ids.iter().filter_map(|id| message(program, line, Some(id))).collect(),
        Step::Message { .. } => message(program, line, None).into_iter().collect(),
        Step::About if program == Program::Claude => claude::of_agent(line).into_iter().collect(),
        Step::Rewind(_) | Step::About | Step::Unknown => Vec::new(),
    }
}

/// Adds what a line states about the session.
pub(crate) fn describe(program: Program, line: &Value, about: &mut About) {
    match program {
        Program::Claude => claude::describe(line, about),
        Program::Codex => codex::describe(line, about),
        Program::Gemini => gemini::describe(line, about),
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

fn owned(value: &Value, pointer: &str) -> Option<String> {
    text(value, pointer).map(ToOwned::to_owned)
}

/// The lines that a unified diff, or a patch of Codex, adds: for each file.
fn added_by_patch(patch: &str) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    for line in patch.lines() {
        let file =
            ["*** Add File: ", "*** Update File: ", "+++ b/"].iter().find_map(|head| line.strip_prefix(head));
        if let Some(path) = file {
            edits.push(Edit { path: path.trim().to_owned(), added: String::new() });
        } else if let Some(edit) = edits.last_mut()
            && let Some(added) = line.strip_prefix('+').filter(|_| !line.starts_with("+++"))
        {
            edit.added.push_str(added);
            edit.added.push('\n');
        }
    }
    edits
}

/// A short form of what a tool was called with.
fn call(name: &str, input: &Value) -> String {
    let input = match input {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("[{name}] {}", redact::beginning(&input, MOST_INPUT))
}

/// The value that a text holds, if it is JSON.
fn parsed(text: &str) -> Value {
    Value::deserialize(&mut serde_json::Deserializer::from_str(text)).unwrap_or_default()
}
