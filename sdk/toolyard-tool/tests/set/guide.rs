//! The guides' Rust: everything in `docs/guide/writing-a-tool.md`, and the pack in `packs.md`, is here as
//! code that compiles, and a test compares the two.

use std::error::Error;
use std::path::PathBuf;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolyard_tool::{
    Contents, Context, Messages, Pack, Problems, Server, ToolError, ToolSet, Typed, clamp, path, tool,
};

use super::support::{Client, text};

mod whole {
    use std::process::ExitCode;

    use schemars::JsonSchema;
    use serde::Deserialize;
    use toolyard_tool::{ToolSet, tool};

    #[derive(Deserialize, JsonSchema)]
    struct Hello {
        /// Who to greet.
        name: String,
    }

    /// Greets a person.
    #[tool(read_only)]
    async fn hello(args: Hello) -> String {
        format!("Hello, {}!", args.name)
    }

    #[expect(dead_code, reason = "a program of its own")]
    fn main() -> ExitCode {
        toolyard_tool::run(ToolSet::new("hello", "1.0.0").with::<hello>())
    }

    pub(super) fn tools() -> ToolSet {
        ToolSet::new("hello", "1.0.0").with::<hello>()
    }
}

#[derive(Clone, Serialize, JsonSchema)]
struct Note {
    title: String,
}

#[derive(Default)]
struct Notebook(Mutex<Vec<Note>>);

impl Notebook {
    fn titles(&self) -> Vec<String> {
        self.0.lock().iter().map(|note| note.title.clone()).collect()
    }
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// Words that must be in the note.
    #[schemars(length(min = 1, max = 200))]
    query: String,
    /// Only notes with this tag.
    #[schemars(regex(pattern = "^[a-z]+$"))]
    tag: Option<String>,
    /// How many to show.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50), transform = clamp)]
    limit: usize,
}

fn ten() -> usize {
    10
}

#[derive(Deserialize, JsonSchema)]
struct Years {
    from: u16,
    to: u16,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("dependentRequired" = { "to": ["from"] }))]
struct Stretch {
    from: Option<u16>,
    to: Option<u16>,
}

/// How long a stretch is.
#[tool]
async fn length(stretch: Stretch) -> u16 {
    stretch.to.unwrap_or_default() - stretch.from.unwrap_or_default()
}

fn in_order(years: &Years, problems: &mut Problems) {
    if years.from > years.to {
        problems.add("from", format!("must not be after `to` ({})", years.to));
    }
}

/// Counts the years.
#[tool(check = in_order, rule = "`from` must not be after `to`.")]
async fn count(years: Years) -> u16 {
    years.to - years.from
}

fn borrowed() -> Result<u8, Box<dyn Error + Send + Sync>> {
    Err("the shelf is empty".into())
}

/// Borrows a book.
#[tool]
async fn borrow() -> Result<u8, ToolError> {
    let books = borrowed().map_err(|error| ToolError::new(format!("{error:#}")))?;
    Ok(books)
}

/// Finds notes.
///
/// The best come first.
///
/// # Errors
/// Text below a heading is for readers of the code, not for models.
#[tool(read_only, title = "Search notes")]
async fn search(notebook: &Notebook, context: &Context, args: Search) -> Result<Vec<Note>, ToolError> {
    context.progress(0.0, 1.0);
    if args.tag.is_some() {
        return Err(ToolError::new("no note has a tag"));
    }
    let notes = notebook.0.lock().clone();
    Ok(notes.into_iter().filter(|note| note.title.contains(&args.query)).take(args.limit).collect())
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Really delete it?
    sure: bool,
}

/// Deletes the notebook.
#[tool(destructive)]
async fn delete(notebook: &Notebook, context: &Context) -> Result<String, ToolError> {
    let answer = context.ask::<Confirm>("This cannot be undone.").await?.accepted()?;
    if answer.sure {
        notebook.0.lock().clear();
    }
    Ok(notebook.titles().join(", "))
}

/// Deletes the notebook, and returns where that was.
#[tool(destructive)]
async fn delete_here(notebook: &Notebook, context: &Context) -> Result<usize, ToolError> {
    let replies =
        context.questions().form::<Confirm>("sure", "This cannot be undone.").roots("where").put().await?;
    let sure = replies.form::<Confirm>("sure")?.accepted()?.sure;
    let folders = replies.roots("where")?;
    if sure {
        notebook.0.lock().clear();
    }
    Ok(folders.len())
}

/// Sends the newsletter to all subscribers.
#[tool(task, asks_first, destructive)]
async fn send(context: &Context) -> Result<String, ToolError> {
    let replies = context.questions().form::<Confirm>("sure", "Send it to 4,000 people?").put().await?;
    replies.form::<Confirm>("sure")?.accepted()?;
    Ok("sent".into())
}

/// Builds the index of a large archive.
#[tool(task, keep = "7d")]
async fn build_index(context: &Context) -> Result<String, ToolError> {
    context.progress_with(1, 3, "reading the archive");
    Ok("built".into())
}

#[derive(Deserialize, JsonSchema)]
struct Title {
    title: String,
}

/// All notes.
#[tool(resource = "notes://all", mime = "text/markdown")]
async fn all_notes(notebook: &Notebook) -> String {
    notebook.titles().join("\n")
}

/// One note.
#[tool(template = "notes://by-title/{title}")]
async fn one_note(notebook: &Notebook, wanted: Title) -> Result<Contents, ToolError> {
    let found = notebook.titles().contains(&wanted.title);
    if found { Ok(Contents::text(wanted.title)) } else { Err(ToolError::not_found("there is no such note")) }
}

/// Asks for a summary of a note.
#[tool(prompt)]
async fn summarize(notebook: &Notebook, wanted: Title) -> Result<Messages, ToolError> {
    if notebook.titles().contains(&wanted.title) {
        return Ok(Messages::new().user(format!("Summarize {}.", wanted.title)));
    }
    Err(ToolError::new("there is no such note"))
}

/// Titles that begin like what was typed.
#[tool(completes = "summarize", argument = "title")]
async fn titles(notebook: &Notebook, typed: Typed) -> Vec<String> {
    notebook.titles().into_iter().filter(|title| title.starts_with(&typed.text)).collect()
}

struct Printer;

/// Prints.
#[tool]
async fn print(_: &Printer) {}

fn plug_in(set: &ToolSet, printer: Printer) -> Result<(), Box<dyn Error>> {
    let live = set.live();
    live.add(ToolSet::new("printer", "1.0.0").state(printer).with::<print>())?;
    live.remove_tool("print");
    Ok(())
}

async fn answers(set: ToolSet) -> Result<String, Box<dyn Error>> {
    let lines = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hello","arguments":{"name":"Ann"}}}"#,
        "\n",
    );
    let mut answers = Vec::new();
    let server = Server::start(set, []).await?;
    server.serve_stream(lines.as_bytes(), &mut answers).await;
    assert!(String::from_utf8_lossy(&answers).contains("Hello, Ann!"));
    Ok(String::from_utf8(answers)?)
}

struct Library;

impl Library {
    async fn open(root: PathBuf) -> Result<Self, ToolError> {
        tokio::task::yield_now().await;
        if root.is_absolute() { Ok(Self) } else { Err(ToolError::new("the root is not absolute")) }
    }
}

/// Finds music.
#[tool]
async fn find(_: &Library) {}

fn three() -> u32 {
    3
}

#[expect(dead_code, reason = "the example has no use for the depth")]
#[derive(Deserialize, JsonSchema)]
struct Config {
    /// Where the music is.
    #[schemars(transform = path)]
    root: PathBuf,
    /// How deep to look.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 9))]
    depth: u32,
}

#[expect(unreachable_pub, reason = "as in a crate of its own")]
pub fn pack() -> Pack {
    Pack::with_config("music", "Finds and plays music", |config: Config| {
        ToolSet::new("music", env!("CARGO_PKG_VERSION"))
            .state_with(move || Library::open(config.root.clone()))
            .with::<find>()
    })
}

fn notes() -> ToolSet {
    let notebook = Notebook(Mutex::new(vec![Note { title: "Bread".into() }]));
    let set = ToolSet::new("notes", "1.0.0")
        .with::<count>()
        .with::<length>()
        .with::<borrow>()
        .with::<send>()
        .with::<build_index>()
        .state(notebook);
    let set = set.with::<search>().with::<delete>().with::<delete_here>();
    set.with::<all_notes>().with::<one_note>().with::<summarize>().with::<titles>().state(())
}

#[tokio::test]
async fn what_the_guides_show_works() {
    let (set, client) = (notes(), Client::newest());
    let found = client.call(&set, "search", json!({ "query": "B", "limit": 1000 })).await;
    assert_eq!(found["structuredContent"], json!({ "result": [{ "title": "Bread" }] }));
    let wrong = client.call(&set, "search", json!({ "query": "B", "tag": "A1" })).await;
    assert!(text(&wrong).contains("`tag` must match the pattern ^[a-z]+$, which \"A1\" does not"));
    let wrong = client.call(&set, "count", json!({ "from": 2, "to": 1 })).await;
    assert!(text(&wrong).contains("`from` must not be after `to` (1)"));
    let wrong = client.call(&set, "length", json!({ "to": 1 })).await;
    assert!(text(&wrong).contains("`from` is missing: `to` needs it"));
    assert_eq!(text(&client.call(&set, "borrow", json!({})).await), "the shelf is empty");
    let read = client.request(&set, "resources/read", json!({ "uri": "notes://by-title/Bread" })).await;
    assert_eq!(read.unwrap()["contents"][0]["text"], "Bread");
    plug_in(&set, Printer).unwrap();
    assert_eq!(answers(whole::tools()).await.unwrap().lines().count(), 2);
    let config = json!({ "root": "/music" });
    assert_eq!(pack().check(&config), []);
    assert_eq!(text(&client.call(&pack().tools(config).unwrap(), "find", json!({})).await), "Done.");
}

#[test]
fn every_snippet_of_the_guides_is_compiled() {
    let here = without_spaces(include_str!("guide.rs"));
    for guide in [
        include_str!("../../../../docs/guide/writing-a-tool.md"),
        include_str!("../../../../docs/guide/packs.md"),
    ] {
        let snippets: Vec<&str> =
            guide.split("```rust\n").skip(1).filter_map(|after| after.split("```").next()).collect();
        assert!(!snippets.is_empty());
        for piece in
            snippets.iter().flat_map(|snippet| snippet.split("\n\n")).flat_map(|part| part.split('…'))
        {
            assert!(here.contains(&without_spaces(piece)), "not in tests/set/guide.rs:\n{piece}");
        }
    }
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}
