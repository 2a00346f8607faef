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
        let headless = Headless::new(640.0, 400.0);
        let (ui, stopper) = (headless.attach(), headless.stopper());
        let thread = std::thread::spawn(move || {
            let mut notes = Notes::default();
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
    let mut reader =
        png::Decoder::new(std::io::BufReader::new(std::fs::File::open(file).unwrap())).read_info().unwrap();
    let mut expected = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut expected).unwrap();
    assert_eq!((info.width, info.height), (picture.width(), picture.height()));
    let pixels = expected.chunks_exact(4).zip(picture.rgba().chunks_exact(4));
    let is_different = |(a, b): &(&[u8], &[u8])| a.iter().zip(*b).any(|(a, b)| a.abs_diff(*b) > 2);
    let different = pixels.filter(is_different).count();
    assert!(different * 1000 <= expected.len() / 4, "{different} pixels differ");
}
