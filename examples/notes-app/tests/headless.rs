//! The app without a display: seen and operated as an agent would, with steps that are committed beside this test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notes_app::Notes;
use toolyard_egui::{Attached, Headless, Stopper};
use toolyard_ui::{Picture, Step, Tree, Ui, replay};

/// The app on a thread of its own, which ends with this.
struct Running {
    ui: Arc<Attached>,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        Self::with(Notes::default())
    }

    fn with(mut notes: Notes) -> Self {
        let headless = Headless::new(640.0, 400.0);
        let (ui, stopper) = (headless.attach(), headless.stopper());
        let thread = std::thread::spawn(move || {
            headless.run(|ui| {
                egui::CentralPanel::default().show(ui, |ui| notes.draw(ui));
            });
        });
        Self { ui, stopper, thread: Some(thread) }
    }

    async fn tree(&self) -> Tree {
        self.ui.tree().await.unwrap()
    }

    async fn picture(&self) -> Picture {
        let tree = self.tree().await;
        let window = tree.windows().next().unwrap();
        self.ui.screenshot(tree.id(window)).await.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().map(JoinHandle::join);
    }
}

fn steps(json: &str) -> Vec<Step> {
    serde_json::from_str(json).unwrap()
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

#[tokio::test]
async fn the_tree_shows_the_controls_with_their_names_and_states() {
    let app = Running::start();
    let tree = app.tree().await;
    let find = |name: &str, kind: &str| {
        let found = tree.by_name(name, Some(kind)).next();
        tree.info(found.unwrap_or_else(|| panic!("no {kind} {name}"))).clone()
    };
    assert_eq!(find("Add", "Button").properties["disabled"], "true");
    assert_eq!(find("Urgent", "CheckBox").properties["checked"], "false");
    assert!(find("Title", "TextInput").bounds.width > 100.0);
}

#[tokio::test]
async fn the_centre_of_every_element_hits_that_element() {
    let app = Running::start();
    replay(app.ui.clone(), &steps(include_str!("add-a-note.json"))).await.unwrap();
    let tree = app.tree().await;
    assert!(tree.len() > 8, "{tree:?}");
    for position in 0..tree.len() {
        let (x, y) = tree.info(position).bounds.center();
        let hit = tree.at(x, y).unwrap_or_else(|| panic!("{:?}", tree.info(position)));
        assert!(tree.is_within(hit, position), "{:?} hit {:?}", tree.info(position), tree.info(hit));
    }
}

#[tokio::test]
async fn the_recorded_steps_add_a_note_and_remove_it() {
    let app = Running::start();
    replay(app.ui.clone(), &steps(include_str!("add-a-note.json"))).await.unwrap();
    let removal = r#"[
        { "tool": "ClickElement", "arguments": { "name": "Remove Buy milk" } },
        { "tool": "AssertElement", "arguments": { "name": "Buy milk (urgent)", "visible": false } }
    ]"#;
    replay(app.ui.clone(), &steps(removal)).await.unwrap();
}

#[tokio::test]
async fn a_wait_ends_when_the_notice_appears_and_when_it_goes() {
    let app = Running::start();
    replay(app.ui.clone(), &steps(include_str!("add-a-note.json"))).await.unwrap();
    let gone = r#"[{ "tool": "WaitForElement",
        "arguments": { "name": "Note added", "visible": false, "timeout": 60000 } }]"#;
    let started = Instant::now();
    replay(app.ui.clone(), &steps(gone)).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(30), "the notice goes after a second and a half");
}

#[tokio::test]
async fn a_value_is_set_without_typing_and_a_key_is_pressed() {
    let app = Running::start();
    let walk = r#"[
        { "tool": "SetValue", "arguments": { "name": "Title", "value": "12" } },
        { "tool": "AssertElement", "arguments": { "path": "Window/Pane/TextInput", "properties": { "value": "12" } } },
        { "tool": "ClickElement", "arguments": { "path": "Window/Pane/TextInput" } },
        { "tool": "PressKey", "arguments": { "key": "End" } },
        { "tool": "PressKey", "arguments": { "key": "a" } },
        { "tool": "AssertElement", "arguments": { "path": "Window/Pane/TextInput", "properties": { "value": "12a" } } },
        { "tool": "TypeText", "arguments": { "text": "new", "clearFirst": true } },
        { "tool": "AssertElement", "arguments": { "path": "Window/Pane/TextInput", "properties": { "value": "new" } } }
    ]"#;
    replay(app.ui.clone(), &steps(walk)).await.unwrap();
}

impl Running {
    /// Adds a note with a number.
    async fn add(&self, number: u32) {
        let walk = format!(
            r#"[{{ "tool": "SetValue", "arguments": {{ "name": "Title", "value": "Note {number}" }} }},
                {{ "tool": "ClickElement", "arguments": {{ "name": "Add" }} }}]"#
        );
        replay(self.ui.clone(), &steps(&walk)).await.unwrap();
    }

    /// Where an element is, as soon as this holds.
    async fn bounds_when(&self, name: &str, holds: impl Fn(f64) -> bool) -> f64 {
        let mut changes = self.ui.changes();
        let seen = async {
            loop {
                changes.mark_unchanged();
                let tree = self.tree().await;
                let found = tree.by_name(name, None).next().unwrap_or_else(|| panic!("no {name}"));
                let y = tree.info(found).bounds.y;
                if holds(y) {
                    return y;
                }
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(30), seen).await.expect("it moves in time")
    }
}

#[tokio::test]
async fn a_scroll_moves_the_list_and_a_scroll_back_restores_it() {
    let app = Running::start();
    for number in 0..30 {
        app.add(number).await;
    }
    let scroll = async |distance: i32| {
        let walk = format!(
            r#"[{{ "tool": "ScrollElement", "arguments": {{ "name": "Remove Note 3", "dy": {distance} }} }}]"#
        );
        replay(app.ui.clone(), &steps(&walk)).await.unwrap();
    };
    let before = app.bounds_when("Remove Note 3", |_| true).await;
    scroll(40).await;
    app.bounds_when("Remove Note 3", |y| (y - (before - 40.0)).abs() < 1.0).await;
    scroll(-40).await;
    app.bounds_when("Remove Note 3", |y| (y - before).abs() < 1.0).await;
}

#[tokio::test]
async fn a_drag_from_the_middle_of_a_field_selects_the_text_to_its_end() {
    let app = Running::start();
    let walk = r#"[
        { "tool": "SetValue", "arguments": { "name": "Title", "value": "mmmmmmmmmmmmmmmmmmmm" } },
        { "tool": "DragElement", "arguments": { "from": "Window/Pane/TextInput", "to": "Window/Pane/CheckBox" } },
        { "tool": "TypeText", "arguments": { "text": "!" } }
    ]"#;
    replay(app.ui.clone(), &steps(walk)).await.unwrap();
    let tree = app.tree().await;
    let field = tree.by_name("Title", Some("TextInput")).next().unwrap();
    let value = &tree.info(field).properties["value"];
    assert!(value.starts_with('m') && value.ends_with('!') && value.len() < 20, "{value}");
}

#[tokio::test]
async fn a_screenshot_looks_as_expected() {
    let app = Running::start();
    let walk = r#"[{ "tool": "SetValue", "arguments": { "name": "Title", "value": "Buy milk" } }]"#;
    replay(app.ui.clone(), &steps(walk)).await.unwrap();
    let picture = app.picture().await;
    let file = beside("expected.png");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, picture.png().unwrap()).unwrap();
    }
    let different = different_pixels(&picture, &file);
    assert!(looks_like(&picture, &file), "{different} pixels differ");
}

/// Whether at most a thousandth of the pixels differs from those of a file.
fn looks_like(picture: &Picture, file: &Path) -> bool {
    different_pixels(picture, file) * 1000 <= picture.rgba().len() / 4
}

fn different_pixels(picture: &Picture, file: &Path) -> usize {
    let file = std::io::BufReader::new(std::fs::File::open(file).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut expected = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut expected).unwrap();
    assert_eq!((info.width, info.height), (picture.width(), picture.height()));
    let pixels = expected.chunks_exact(4).zip(picture.rgba().chunks_exact(4));
    let is_different = |(a, b): &(&[u8], &[u8])| a.iter().zip(*b).any(|(a, b)| a.abs_diff(*b) > 2);
    pixels.filter(is_different).count()
}

const GUIDE: &str = include_str!("../../../docs/guide/ui.md");

/// The steps that the guide shows as commands, except those that only look.
fn steps_of_the_guide() -> Vec<Step> {
    let calls = GUIDE.lines().filter_map(|line| line.strip_prefix("$ toolyard tools call Notes:"));
    let steps = calls.filter(|call| !call.starts_with("FindElement")).map(|call| {
        let (tool, arguments) = call.split_once(' ').unwrap();
        let mut object = serde_json::Map::new();
        let mut rest = arguments;
        while let Some((key, value)) = rest.split_once('=') {
            let (value, after) = match value.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap(),
                None => value.split_once(' ').unwrap_or((value, "")),
            };
            object.insert(key.trim().to_owned(), value.into());
            rest = after;
        }
        Step { tool: tool.to_owned(), arguments: object.into() }
    });
    steps.collect()
}

#[tokio::test]
async fn the_steps_of_the_guide_lead_to_its_picture() {
    let steps = steps_of_the_guide();
    let tools: Vec<_> = steps.iter().map(|step| step.tool.as_str()).collect();
    assert_eq!(tools, ["TypeText", "ClickElement", "AssertElement"]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/notes-app.png");
    // On a busy machine the notice may be gone before the picture is taken.
    for attempt in 1.. {
        let app = Running::start();
        replay(app.ui.clone(), &steps).await.unwrap();
        let picture = app.picture().await;
        if looks_like(&picture, &file) {
            return;
        }
        let different = different_pixels(&picture, &file);
        assert!(
            attempt < 5,
            "{different} pixels differ: `cargo xtask ui-app --guide` draws the picture again"
        );
    }
}

#[test]
fn an_app_with_a_window_needs_less_than_ten_lines_for_this() {
    let source = include_str!("../../notes-window/src/main.rs");
    let words = ["toolyard", "Embedded", "Background", "offer"];
    let lines = source.lines().filter(|line| !line.starts_with("//!"));
    let own: Vec<&str> = lines.filter(|line| words.iter().any(|word| line.contains(word))).collect();
    let count = own.len() + 1; // The closing brace of the `if` that draws in memory.
    assert!(count < 10, "{own:#?}");
    assert!(GUIDE.contains("let ui = toolyard_egui::attach(&creation.egui_ctx);"));
    assert!(source.contains("let ui = toolyard_egui::attach(&creation.egui_ctx);"));
}

#[tokio::test]
async fn a_note_that_is_scrolled_out_of_view_is_removed_by_a_click() {
    let app = Running::start();
    for number in 0..30 {
        app.add(number).await;
    }
    let tree = app.tree().await;
    let last = tree.by_name("Remove Note 29", None).next().unwrap();
    assert!(!tree.is_in_view(last) && tree.is_visible(last));
    let walk = r#"[
        { "tool": "ClickElement", "arguments": { "name": "Remove Note 29" } },
        { "tool": "AssertElement", "arguments": { "name": "Remove Note 29", "visible": false } },
        { "tool": "AssertElement", "arguments": { "name": "Remove Note 28" } },
        { "tool": "ClickElement", "arguments": { "name": "Remove Note 0" } },
        { "tool": "AssertElement", "arguments": { "name": "Remove Note 0", "visible": false } },
        { "tool": "AssertElement", "arguments": { "name": "Remove Note 1" } }
    ]"#;
    replay(app.ui.clone(), &steps(walk)).await.unwrap();
}

#[tokio::test]
async fn a_click_on_a_note_of_the_archive_copies_its_title_into_the_field() {
    let app = Running::with(Notes::with_archive(50));
    let walk = r#"[
        { "tool": "ClickElement", "arguments": { "name": "Archived note 49" } },
        { "tool": "AssertElement",
            "arguments": { "name": "Title", "type": "TextInput", "text": "Archived note 49" } }
    ]"#;
    replay(app.ui.clone(), &steps(walk)).await.unwrap();
}
