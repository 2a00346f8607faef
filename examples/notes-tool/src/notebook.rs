//! The state behind the tools: notes in memory.

use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Serialize;
use toolyard_tool::ToolError;

/// One note.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Note {
    /// What it is called; unique.
    pub title: String,
    /// The text.
    pub body: String,
    /// Words to find it by.
    pub tags: Vec<String>,
}

impl Note {
    /// As Markdown.
    pub fn as_text(&self) -> String {
        format!("# {}\n{}\n", self.title, self.body)
    }
}

/// All notes, oldest first.
#[derive(Debug, Default)]
pub struct Notebook(Mutex<Vec<Note>>);

impl Notebook {
    pub fn with_first_note() -> Self {
        let first =
            Note { title: "Welcome".into(), body: "This is a notebook.".into(), tags: vec!["help".into()] };
        Self(Mutex::new(vec![first]))
    }

    pub fn add(&self, title: String, body: String, tags: Vec<String>) -> Result<Note, ToolError> {
        let mut notes = self.notes();
        if notes.iter().any(|note| note.title == title) {
            return Err(ToolError::new(format!("there is a note called “{title}” already"))
                .hint("choose another title, or delete that note first"));
        }
        let note = Note { title, body, tags };
        notes.push(note.clone());
        Ok(note)
    }

    pub fn all(&self) -> Vec<Note> {
        self.notes().clone()
    }

    pub fn find(&self, query: &str) -> Vec<Note> {
        let is_in = |note: &Note| {
            note.title.contains(query)
                || note.body.contains(query)
                || note.tags.iter().any(|tag| tag == query)
        };
        self.notes().iter().filter(|note| is_in(note)).cloned().collect()
    }

    pub fn note(&self, title: &str) -> Result<Note, ToolError> {
        let note = self.notes().iter().find(|note| note.title == title).cloned();
        note.ok_or_else(|| ToolError::not_found(format!("there is no note called “{title}”")))
    }

    pub fn delete(&self, title: &str) {
        self.notes().retain(|note| note.title != title);
    }

    fn notes(&self) -> MutexGuard<'_, Vec<Note>> {
        self.0.lock()
    }
}
