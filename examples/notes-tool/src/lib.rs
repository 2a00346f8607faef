//! A small notebook: tools, a resource, a template, a prompt with completion, a question to the user and a
//! long-running job, each a plain function.

mod notebook;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Content, Contents, Context, Messages, Problems, ToolError, ToolSet, Typed, clamp, tool};

pub use notebook::{Note, Notebook};

/// Everything the notebook offers.
pub fn tools() -> ToolSet<Notebook> {
    ToolSet::new("notes-tool", "1.0.0")
        .title("Notebook")
        .instructions("Search before you add: notes have unique titles.")
        .with::<draw>()
        .state_with(async || Ok(Notebook::with_first_note()))
        .with::<add_note>()
        .with::<search_notes>()
        .with::<count_notes>()
        .with::<delete_note>()
        .with::<export_notes>()
        .with::<all_notes>()
        .with::<one_note>()
        .with::<summarize>()
        .with::<complete_title>()
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewNote {
    /// What the note is called.
    #[schemars(length(min = 1, max = 80))]
    pub title: String,
    /// The note itself.
    pub body: String,
    /// Words to find it by.
    #[serde(default)]
    #[schemars(length(max = 5), inner(regex(pattern = "^[a-z]+$")))]
    pub tags: Vec<String>,
}

/// Adds a note.
///
/// # Errors
/// If there is a note with that title already.
#[tool(
    title = "Add a note",
    destructive = false,
    check = has_text,
    rule = "`body` must not be empty unless there are `tags`."
)]
pub async fn add_note(notebook: &Notebook, new: NewNote) -> Result<Note, ToolError> {
    notebook.add(new.title, new.body, new.tags)
}

fn has_text(new: &NewNote, problems: &mut Problems) {
    if new.body.trim().is_empty() && new.tags.is_empty() {
        problems.add("body", "must not be empty unless there are `tags`");
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    Newest,
    Title,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Words that must be in the title, the body or the tags.
    pub query: String,
    /// How many to show.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50), transform = clamp)]
    pub limit: usize,
    /// Which come first.
    pub order: Option<Order>,
}

fn ten() -> usize {
    10
}

/// Finds notes. It reads files, so it is a plain function: it runs where blocking does no harm.
#[tool(read_only)]
pub fn search_notes(notebook: &Notebook, search: Search) -> Vec<Note> {
    let mut found = notebook.find(&search.query);
    match search.order {
        Some(Order::Title) => found.sort_by(|a, b| a.title.cmp(&b.title)),
        Some(Order::Newest) | None => found.reverse(),
    }
    found.truncate(search.limit);
    found
}

/// Counts the notes.
#[tool(read_only, idempotent)]
pub async fn count_notes(notebook: &Notebook) -> usize {
    notebook.all().len()
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Title {
    /// The title of the note.
    pub title: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Confirm {
    /// Really delete it?
    sure: bool,
}

/// Deletes a note, after asking the user.
#[tool(destructive, idempotent)]
pub async fn delete_note(notebook: &Notebook, context: &Context, wanted: Title) -> Result<String, ToolError> {
    let note = notebook.note(&wanted.title)?;
    let answer = context.ask::<Confirm>(format!("Delete “{}”?", note.title)).await?.accepted()?;
    if !answer.sure {
        return Ok("It was kept.".into());
    }
    notebook.delete(&wanted.title);
    context.resource_updated("notes://all");
    Ok("It is gone.".into())
}

/// Writes all notes into one text. Takes its time.
#[tool(read_only, task)]
pub fn export_notes(notebook: &Notebook, context: &Context) -> Result<String, ToolError> {
    let notes = notebook.all();
    let mut text = String::new();
    for (done, note) in (1..).zip(&notes) {
        if context.is_cancelled() {
            return Err(ToolError::new("the export was cancelled"));
        }
        std::thread::sleep(Duration::from_millis(5));
        text.push_str(&note.as_text());
        context.progress(done, notes.len());
    }
    Ok(text)
}

/// Draws a dot.
#[tool(read_only, open_world = false)]
pub async fn draw() -> Content {
    const DOT: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x01D\0;";
    Content::new().text("A dot:").image("image/gif", DOT).meta("example.org/pixels", 1)
}

/// All notes, one below the other.
#[tool(resource = "notes://all", mime = "text/markdown")]
pub async fn all_notes(notebook: &Notebook) -> String {
    notebook.all().iter().map(Note::as_text).collect()
}

/// One note.
#[tool(template = "notes://by-title/{title}", mime = "text/markdown")]
pub async fn one_note(notebook: &Notebook, wanted: Title) -> Result<Contents, ToolError> {
    Ok(Contents::text(notebook.note(&wanted.title)?.body))
}

/// Asks for a summary of a note.
#[tool(prompt)]
pub async fn summarize(notebook: &Notebook, wanted: Title) -> Result<Messages, ToolError> {
    let note = notebook.note(&wanted.title)?;
    Ok(Messages::new().user(format!("Summarize this note:\n\n{}", note.body)))
}

/// Titles that begin like what was typed.
#[tool(completes = "summarize", argument = "title")]
pub async fn complete_title(notebook: &Notebook, typed: Typed) -> Vec<String> {
    notebook.all().into_iter().map(|note| note.title).filter(|title| title.starts_with(&typed.text)).collect()
}
