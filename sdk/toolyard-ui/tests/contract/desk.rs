//! A simulated interface, and an agent that calls the tools over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::sync::watch;
use toolyard_model::BoxFuture;
use toolyard_tool::Server;
use toolyard_ui::{Action, ElementId, Picture, Tree, TreeNode, Ui, UiError, tools};

/// An app with a field, a button, a check box and a notice that the button shows.
#[expect(clippy::struct_excessive_bools, reason = "an app has many states")]
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) text: String,
    pub(crate) is_focused: bool,
    pub(crate) is_checked: bool,
    pub(crate) has_notice: bool,
    pub(crate) seen: Vec<Action>,
    pub(crate) is_broken: bool,
    /// Names of further elements below the window.
    pub(crate) rows: Vec<String>,
    /// Whether there is a tab, and whether it is selected.
    pub(crate) tab: Option<bool>,
    /// Whether the app can scroll to its further elements, and whether it has done so.
    pub(crate) scrolls: bool,
    pub(crate) is_scrolled: bool,
    /// How many pixels of its display make one logical pixel, if not one.
    pub(crate) scale: Option<u16>,
}

pub(crate) struct Simulated {
    pub(crate) desk: Mutex<Desk>,
    changes: watch::Sender<u64>,
    /// How often the tree was asked for.
    pub(crate) looks: AtomicUsize,
    /// Whether it changes with every look, as an app with a clock does.
    pub(crate) is_restless: AtomicBool,
}

impl Simulated {
    pub(crate) fn new() -> Arc<Self> {
        let (changes, looks) = (watch::channel(0).0, AtomicUsize::new(0));
        let is_restless = AtomicBool::new(false);
        Arc::new(Self { desk: Mutex::default(), changes, looks, is_restless })
    }

    /// What was done since the last look.
    pub(crate) fn done(&self) -> Vec<Action> {
        std::mem::take(&mut self.desk.lock().seen)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Desk)) {
        change(&mut self.desk.lock());
        self.changes.send_modify(|number| *number += 1);
    }

    fn draw(&self) -> Tree {
        let desk = self.desk.lock();
        let field = TreeNode::new("TextInput").id(2).named("Title").at(10.0, 10.0, 200.0, 20.0);
        let field = field.property("value", &desk.text).property("focused", &desk.is_focused.to_string());
        let button = TreeNode::new("Button").id(3).named("Save").at(10.0, 40.0, 80.0, 20.0);
        let button = button.property("automationId", "save-button");
        let check = TreeNode::new("CheckBox").id(4).named("Urgent").at(100.0, 40.0, 80.0, 20.0);
        let check = check.property("checked", &desk.is_checked.to_string());
        let notice = TreeNode::new("Label").id(5).named("Saved").at(10.0, 70.0, 100.0, 20.0);
        let notice = if desk.has_notice { notice } else { notice.hidden() };
        let window = TreeNode::new("Window").id(1).named("Desk").at(0.0, 0.0, 320.0, 200.0);
        let mut window = window.with(field).with(button).with(check).with(notice);
        if let Some(is_selected) = desk.tab {
            let tab = TreeNode::new("Tab").id(6).named("Archive").at(190.0, 40.0, 60.0, 20.0);
            window = window.with(tab.property("selected", &is_selected.to_string()));
        }
        for (id, name) in (100..).zip(&desk.rows) {
            let top = if desk.is_scrolled { 100.0 } else { 200.0 };
            window = window.with(TreeNode::new("Row").id(id).named(name).at(0.0, top, 10.0, 10.0));
        }
        Tree::from_windows(vec![window])
    }
}

impl Ui for Simulated {
    fn tree(&self) -> BoxFuture<Result<Tree, UiError>> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let tree = self.draw();
        if self.is_restless.load(Ordering::Relaxed) {
            self.changes.send_modify(|number| *number += 1);
        }
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(tree)
        })
    }

    fn perform(&self, action: Action) -> BoxFuture<Result<(), UiError>> {
        if self.desk.lock().is_broken {
            return Box::pin(async { Err(UiError::new("the mouse is broken")) });
        }
        let tree = self.draw();
        self.change(|desk| {
            match &action {
                Action::Click { at: (x, y), .. } => match tree.at(*x, *y).map(|hit| tree.id(hit).0) {
                    Some(2) => desk.is_focused = true,
                    Some(3) => desk.has_notice = true,
                    Some(4) => desk.is_checked = !desk.is_checked,
                    Some(6) => desk.tab = Some(true),
                    _ => {}
                },
                Action::Type { text, clear_first, .. } if desk.is_focused => {
                    if *clear_first {
                        desk.text.clear();
                    }
                    desk.text.push_str(text);
                }
                Action::SetValue { element: ElementId(2), value, .. } => desk.text.clone_from(value),
                Action::Focus { element: ElementId(2), .. } => desk.is_focused = true,
                Action::ScrollIntoView { .. } if desk.scrolls => desk.is_scrolled = true,
                _ => {}
            }
            desk.seen.push(action);
        });
        Box::pin(async { Ok(()) })
    }

    fn screenshot(&self, _window: ElementId) -> BoxFuture<Result<Picture, UiError>> {
        let scale = u32::from(self.desk.lock().scale.unwrap_or(1));
        let is_save =
            move |x: u32, y: u32| (10..90).contains(&(x / scale)) && (40..60).contains(&(y / scale));
        let colour = move |x, y| if is_save(x, y) { [200, 0, 0, 255] } else { [10, 20, 30, 255] };
        let (width, height) = (320 * scale, 200 * scale);
        let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| colour(x, y))).collect();
        Box::pin(async move { Picture::new(width, height, scale.into(), pixels) })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// A client of the tools.
pub(crate) struct Agent {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Agent {
    pub(crate) async fn new(ui: &Arc<Simulated>) -> Self {
        let server = Server::start(tools(ui.clone()), []).await.unwrap();
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        tokio::spawn(async move {
            let (read, write) = tokio::io::split(theirs);
            server.serve_stream(read, write).await;
        });
        let (read, write) = tokio::io::split(ours);
        let mut agent = Self { lines: BufReader::new(read).lines(), write };
        let info = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        agent.ask("initialize", params).await;
        agent
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.write.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        loop {
            let line = self.lines.next_line().await.unwrap().unwrap();
            let mut answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == 1 {
                assert!(answer["error"].is_null(), "{answer}");
                return answer["result"].take();
            }
        }
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// The structured answer of a call that must succeed.
    pub(crate) async fn get(&mut self, tool: &str, arguments: Value) -> Value {
        let mut result = self.call(tool, arguments).await;
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].take()
    }

    /// The text of a call that must fail.
    pub(crate) async fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}
