//! The contract of the tools over a simulated interface, called as an agent calls them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::sync::watch;
use toolyard_model::BoxFuture;
use toolyard_tool::Server;
use toolyard_ui::{Action, ElementId, Picture, Step, Tree, TreeNode, Ui, UiError, replay, tools};

/// An app with a field, a button, a check box and a notice that the button shows.
#[expect(clippy::struct_excessive_bools, reason = "an app has many states")]
#[derive(Default)]
struct Desk {
    text: String,
    is_focused: bool,
    is_checked: bool,
    has_notice: bool,
    seen: Vec<Action>,
    is_broken: bool,
    /// Names of further elements below the window.
    rows: Vec<String>,
    /// Whether there is a tab, and whether it is selected.
    tab: Option<bool>,
    /// Whether the app can scroll to its further elements, and whether it has done so.
    scrolls: bool,
    is_scrolled: bool,
}

struct Simulated {
    desk: Mutex<Desk>,
    changes: watch::Sender<u64>,
    /// How often the tree was asked for.
    looks: AtomicUsize,
    /// Whether it changes with every look, as an app with a clock does.
    is_restless: AtomicBool,
}

impl Simulated {
    fn new() -> Arc<Self> {
        let (changes, looks) = (watch::channel(0).0, AtomicUsize::new(0));
        let is_restless = AtomicBool::new(false);
        Arc::new(Self { desk: Mutex::default(), changes, looks, is_restless })
    }

    /// What was done since the last look.
    fn done(&self) -> Vec<Action> {
        std::mem::take(&mut self.desk.lock().seen)
    }

    fn change(&self, change: impl FnOnce(&mut Desk)) {
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
        let pixels = [10, 20, 30, 255].repeat(320 * 200);
        Box::pin(async move { Picture::new(320, 200, 1.0, pixels) })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// A client of the tools.
struct Agent {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Agent {
    async fn new(ui: &Arc<Simulated>) -> Self {
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

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// The structured answer of a call that must succeed.
    async fn get(&mut self, tool: &str, arguments: Value) -> Value {
        let mut result = self.call(tool, arguments).await;
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].take()
    }

    /// The text of a call that must fail.
    async fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn the_tree_has_types_names_bounds_paths_and_properties() {
    let ui = Simulated::new();
    let answer = Agent::new(&ui).await.get("GetElementTree", json!({})).await;
    let button = json!({
        "type": "Button", "name": "Save", "index": 0, "path": "Window[0]/Button[0]",
        "bounds": { "x": 10.0, "y": 40.0, "width": 80.0, "height": 20.0 },
        "properties": { "automationId": "save-button" },
    });
    assert_eq!(answer["root"]["children"][1], button);
    assert_eq!(answer["root"]["children"].as_array().unwrap().len(), 3, "the hidden label is left out");
}

#[tokio::test]
async fn depth_hidden_elements_and_a_part_of_the_tree_can_be_chosen() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let shallow = agent.get("GetElementTree", json!({ "maxDepth": 1 })).await;
    assert!(shallow["root"]["children"].is_null());
    let whole = agent.get("GetElementTree", json!({ "includeHidden": true })).await;
    assert_eq!(whole["root"]["children"].as_array().unwrap().len(), 4);
    let part = agent.get("GetElementTree", json!({ "path": "Window/CheckBox" })).await;
    assert_eq!(part["root"]["name"], "Urgent");
    let wrong = agent.refused("GetElementTree", json!({ "path": "Window/[3]" })).await;
    assert!(wrong.contains("Invalid path segment: [3]"), "{wrong}");
}

#[tokio::test]
async fn an_element_is_found_by_path_name_id_and_type_and_a_missing_one_is_an_answer() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    for selector in [
        json!({ "path": "Window[0]/Button[0]" }),
        json!({ "name": "save" }),
        json!({ "name": "SAVE-BUTTON" }),
        json!({ "selector": "Save" }),
        json!({ "name": "button" }),
        json!({ "name": "Save", "type": "Button" }),
    ] {
        let found = agent.get("FindElement", selector.clone()).await;
        assert_eq!(found["path"], "Window[0]/Button[0]", "{selector}: {found}");
    }
    assert_eq!(agent.get("FindElement", json!({ "name": "Quit" })).await, json!({ "found": false }));
    let refused = agent.refused("FindElement", json!({})).await;
    assert!(refused.contains("Selector parameter is required"), "{refused}");
}

#[tokio::test]
async fn a_click_at_the_centre_of_a_found_element_hits_it() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let found = agent.get("FindElement", json!({ "name": "Save" })).await;
    let bounds = &found["bounds"];
    let centre =
        |start: &str, length: &str| bounds[start].as_f64().unwrap() + bounds[length].as_f64().unwrap() / 2.0;
    let (x, y) = (centre("x", "width"), centre("y", "height"));
    let clicked = agent.get("ClickElement", json!({ "x": x, "y": y })).await;
    assert_eq!(clicked, json!({ "x": 50.0, "y": 50.0, "clicked": true }));
    assert!(ui.desk.lock().has_notice);
}

#[tokio::test]
async fn a_click_on_nothing_is_an_answer_and_a_click_nowhere_is_a_failure() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let missed = agent.get("ClickElement", json!({ "x": 5000, "y": 5000 })).await;
    assert_eq!(missed["clicked"], false);
    assert!(ui.desk.lock().seen.is_empty());
    for arguments in [json!({}), json!({ "x": 1 }), json!({ "x": 1, "y": 1, "name": "Save" })] {
        let refused = agent.refused("ClickElement", arguments).await;
        assert!(refused.contains("Missing x or y coordinates"), "{refused}");
    }
    let unknown = agent.refused("ClickElement", json!({ "name": "Quit" })).await;
    assert!(unknown.contains("there is no element named `Quit`"), "{unknown}");
    let hidden = agent.refused("ClickElement", json!({ "name": "Saved" })).await;
    assert!(hidden.contains("is hidden"), "{hidden}");
}

#[tokio::test]
async fn text_goes_to_the_element_with_the_focus_or_at_a_place() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let nowhere = agent.get("TypeText", json!({ "text": "lost" })).await;
    assert_eq!(nowhere, json!({ "text": "lost", "typed": false }));
    let typed = agent.get("TypeText", json!({ "text": "Milk", "path": "Window/TextInput" })).await;
    assert_eq!(typed["typed"], true);
    agent.get("TypeText", json!({ "text": "Bread", "clearFirst": true })).await;
    assert_eq!(ui.desk.lock().text, "Bread");
    assert!(agent.refused("TypeText", json!({})).await.contains("`text`"));
}

#[tokio::test]
async fn a_screenshot_is_image_content_of_its_true_type() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let png = agent.call("CaptureScreenshot", json!({})).await;
    assert_eq!(png["content"][0]["mimeType"], "image/png");
    assert!(png["content"][0]["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));
    let jpeg = agent.call("CaptureScreenshot", json!({ "format": "jpeg", "quality": 50 })).await;
    assert_eq!(jpeg["content"][0]["mimeType"], "image/jpeg");
    assert!(jpeg["content"][0]["data"].as_str().unwrap().starts_with("/9j/"));
    let part = agent.call("CaptureScreenshot", json!({ "path": "Window/Button" })).await;
    assert!(
        part["content"][0]["data"].as_str().unwrap().len()
            < png["content"][0]["data"].as_str().unwrap().len()
    );
}

#[tokio::test]
async fn a_wait_ends_with_the_change_and_a_wait_that_times_out_is_an_answer() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let vain = agent.get("WaitForElement", json!({ "name": "Saved", "timeout": 100 })).await;
    assert_eq!((&vain["found"], &vain["visible"]), (&json!(false), &json!(false)));
    for (has_notice, visible) in [(true, true), (false, false)] {
        let later = ui.clone();
        let waiting =
            agent.get("WaitForElement", json!({ "name": "Saved", "visible": visible, "timeout": 60_000 }));
        let changing = async move {
            tokio::task::yield_now().await;
            later.change(|desk| desk.has_notice = has_notice);
            Instant::now()
        };
        let (answer, changed) = tokio::join!(waiting, changing);
        assert_eq!(answer["found"], true, "{answer}");
        assert!(changed.elapsed() < Duration::from_secs(10), "long before the timeout");
    }
}

/// With a clock that only moves while everything waits, a wait that polls would take more looks or end later.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_the_moment_of_the_change_and_looks_only_then() {
    for (has_notice, visible) in [(true, true), (false, false)] {
        let ui = Simulated::new();
        ui.change(|desk| desk.has_notice = !has_notice);
        let mut agent = Agent::new(&ui).await;
        let started = tokio::time::Instant::now();
        let waiting =
            agent.get("WaitForElement", json!({ "name": "Saved", "visible": visible, "timeout": 60_000 }));
        let changing = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            ui.change(|desk| desk.has_notice = has_notice);
        };
        let (answer, ()) = tokio::join!(waiting, changing);
        assert_eq!((&answer["found"], &answer["visible"]), (&json!(true), &json!(visible)));
        let late = started.elapsed().saturating_sub(Duration::from_millis(300));
        assert!(late <= Duration::from_millis(2), "{late:?} after the change");
        assert_eq!(ui.looks.load(Ordering::Relaxed), 2, "one look before the change, one after it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_timeout_even_if_the_app_changes_all_the_time() {
    let ui = Simulated::new();
    ui.is_restless.store(true, Ordering::Relaxed);
    let mut agent = Agent::new(&ui).await;
    let started = tokio::time::Instant::now();
    let waiting = agent.get("WaitForElement", json!({ "name": "Saved", "timeout": 300 }));
    let answer = tokio::time::timeout(Duration::from_mins(1), waiting).await.expect("the wait ends");
    assert_eq!((&answer["found"], &answer["visible"]), (&json!(false), &json!(false)), "{answer}");
    assert!(started.elapsed() < Duration::from_millis(400), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_element_out_of_view_is_scrolled_to_before_it_is_clicked() {
    let ui = Simulated::new();
    ui.change(|desk| (desk.rows, desk.scrolls) = (vec!["Last".to_owned()], true));
    let mut agent = Agent::new(&ui).await;
    let found = agent.get("FindElement", json!({ "name": "Last" })).await;
    assert_eq!(found["properties"]["outOfView"], "true", "{found}");
    let clicked = agent.get("ClickElement", json!({ "name": "Last" })).await;
    assert_eq!(clicked, json!({ "x": 5.0, "y": 105.0, "clicked": true }));
    let done = ui.done();
    let scroll = Action::ScrollIntoView { window: ElementId(1), element: ElementId(100) };
    assert_eq!(done[0], scroll, "{done:?}");
    assert!(matches!(done[1], Action::Click { at: (5.0, 105.0), .. }), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_click_on_an_element_that_the_app_does_not_scroll_to_is_refused() {
    let ui = Simulated::new();
    ui.change(|desk| desk.rows = vec!["Last".to_owned()]);
    let mut agent = Agent::new(&ui).await;
    let refused = agent.refused("ClickElement", json!({ "name": "Last" })).await;
    assert!(refused.contains("the element named `Last` is scrolled out of view"), "{refused}");
    assert!(!ui.done().iter().any(|action| matches!(action, Action::Click { .. })));
    let picture = agent.refused("CaptureScreenshot", json!({ "path": "Window/Row" })).await;
    assert!(picture.contains("scrolled out of view"), "{picture}");
}

#[tokio::test]
async fn a_key_goes_to_the_element_at_a_path() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let press = json!({ "key": "Enter", "path": "Window/TextInput" });
    assert_ne!(agent.call("PressKey", press).await["isError"], true);
    let press = Action::Press { window: ElementId(1), key: "Enter".into(), modifiers: vec![] };
    let focus = Action::Focus { window: ElementId(1), element: ElementId(2) };
    assert_eq!(ui.done(), [focus, press]);
    let refused = agent.refused("PressKey", json!({ "key": "Enter", "path": "Window/Button" })).await;
    assert!(refused.contains("the element at `Window/Button` does not take the focus"), "{refused}");
}

#[tokio::test]
async fn an_element_is_scrolled_at_its_centre_by_the_given_distance() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    for (arguments, by) in [
        (json!({ "name": "Title", "dy": 40 }), (0.0, 40.0)),
        (json!({ "path": "Window/TextInput", "dx": -5.5, "dy": -1 }), (-5.5, -1.0)),
    ] {
        assert_ne!(agent.call("ScrollElement", arguments).await["isError"], true);
        assert_eq!(ui.done(), [Action::Scroll { window: ElementId(1), at: (110.0, 20.0), by }]);
    }
    let refused = agent.refused("ScrollElement", json!({ "dy": 1 })).await;
    assert!(refused.contains("Selector parameter is required"), "{refused}");
}

#[tokio::test]
async fn an_element_is_dragged_from_its_centre_to_the_centre_of_the_other() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let paths = json!({ "from": "Window/Button", "to": "Window/CheckBox" });
    assert_ne!(agent.call("DragElement", paths).await["isError"], true);
    assert_eq!(ui.done(), [Action::Drag { window: ElementId(1), from: (50.0, 50.0), to: (140.0, 50.0) }]);
    let nowhere = agent.refused("DragElement", json!({ "from": "Window/Button", "to": "Window/Tab" })).await;
    assert!(nowhere.contains("there is no element at `Window/Tab`"), "{nowhere}");
    assert_eq!(ui.done(), []);
}

#[tokio::test]
async fn a_tab_is_selected_by_one_click_and_a_selected_one_is_left_alone() {
    let ui = Simulated::new();
    ui.change(|desk| desk.tab = Some(false));
    let mut agent = Agent::new(&ui).await;
    assert_ne!(agent.call("SelectElement", json!({ "name": "Archive" })).await["isError"], true);
    let done = ui.done();
    assert!(matches!(done[..], [Action::Click { at: (220.0, 50.0), count: 1, .. }]), "{done:?}");
    assert_ne!(agent.call("SelectElement", json!({ "path": "Window/Tab" })).await["isError"], true);
    assert_eq!(ui.done(), [], "it is selected already");
}

#[tokio::test]
async fn a_failure_of_the_app_is_an_error_of_the_tool() {
    let ui = Simulated::new();
    ui.change(|desk| desk.is_broken = true);
    let refused = Agent::new(&ui).await.refused("ClickElement", json!({ "name": "Save" })).await;
    assert!(refused.contains("the mouse is broken"), "{refused}");
}

#[tokio::test]
async fn values_are_set_and_boxes_toggled_by_path_or_name() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    agent.call("SetValue", json!({ "name": "Title", "value": "Eggs" })).await;
    assert_eq!(ui.desk.lock().text, "Eggs");
    assert_eq!(agent.get("ToggleElement", json!({ "name": "Urgent", "on": true })).await["clicked"], true);
    assert_eq!(agent.get("ToggleElement", json!({ "name": "Urgent", "on": true })).await["clicked"], false);
    assert!(ui.desk.lock().is_checked);
    let refused = agent.refused("ToggleElement", json!({ "name": "Save" })).await;
    assert!(refused.contains("cannot be turned on and off"), "{refused}");
}

#[tokio::test]
async fn an_assertion_names_every_difference() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let right = json!({ "name": "Urgent", "properties": { "checked": "false" } });
    assert_ne!(agent.call("AssertElement", right).await["isError"], true);
    let wrong =
        json!({ "name": "Urgent", "text": "Later", "properties": { "checked": "true", "focused": "true" } });
    let refused = agent.refused("AssertElement", wrong).await;
    for part in
        ["`Later` is neither in its name", "`checked` is \"false\", not \"true\"", "it has no `focused`"]
    {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert_ne!(
        agent.call("AssertElement", json!({ "name": "Quit", "visible": false })).await["isError"],
        true
    );
}

#[tokio::test]
async fn recorded_steps_do_the_same_to_a_fresh_app_and_fail_where_it_differs() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    agent.get("RecordSteps", json!({ "what": "start" })).await;
    agent.get("ClickElement", json!({ "x": 20, "y": 15 })).await;
    agent.get("TypeText", json!({ "text": "Milk" })).await;
    agent.get("ClickElement", json!({ "name": "Save" })).await;
    agent.get("WaitForElement", json!({ "name": "Saved" })).await;
    agent.call("AssertElement", json!({ "name": "Title", "text": "Milk" })).await;
    agent.get("FindElement", json!({ "name": "Save" })).await;
    let recorded = agent.get("RecordSteps", json!({ "what": "stop" })).await;
    let steps: Vec<Step> = serde_json::from_value(recorded["steps"].clone()).unwrap();
    let tools: Vec<_> = steps.iter().map(|step| step.tool.as_str()).collect();
    assert_eq!(tools, ["ClickElement", "TypeText", "ClickElement", "WaitForElement", "AssertElement"]);
    assert_eq!(steps[0].arguments["path"], "Window[0]/TextInput[0]", "a point is kept as the element there");

    let fresh = Simulated::new();
    replay(fresh.clone(), &steps).await.unwrap();
    assert_eq!(fresh.desk.lock().text, "Milk");
    let mut other = steps.clone();
    other[4].arguments["text"] = json!("Eggs");
    let failed = replay(Simulated::new(), &other).await.unwrap_err();
    assert_eq!(failed.number, 5);
    assert!(failed.to_string().contains("`Eggs` is neither in its name"), "{failed}");
    let through_the_tool = agent.refused("ReplaySteps", json!({ "steps": other })).await;
    assert!(through_the_tool.contains("step 5: AssertElement"), "{through_the_tool}");
}

#[tokio::test]
async fn ten_thousand_elements_are_listed_whole_and_the_last_is_found() {
    let ui = Simulated::new();
    ui.change(|desk| desk.rows = (0..10_000).map(|number| format!("Row {number}")).collect());
    let mut agent = Agent::new(&ui).await;
    let answer = agent.get("GetElementTree", json!({})).await;
    assert_eq!(answer["root"]["children"].as_array().unwrap().len(), 10_003);
    assert_ne!(answer["isCut"], true);
    let last = agent.get("FindElement", json!({ "name": "Row 9999" })).await;
    assert_eq!(last["path"], "Window[0]/Row[9999]");
    let by_path = agent.get("FindElement", json!({ "path": "Window[0]/Row[9999]" })).await;
    assert_eq!(by_path["name"], "Row 9999");
}

#[tokio::test]
async fn a_tree_over_the_limit_is_cut_and_marked_as_cut() {
    let ui = Simulated::new();
    ui.change(|desk| desk.rows = vec![String::new(); 30_000]);
    let answer = Agent::new(&ui).await.get("GetElementTree", json!({})).await;
    assert_eq!(answer["isCut"], true);
    assert!(answer["root"]["children"].as_array().unwrap().len() < 20_000);
}

#[tokio::test]
async fn names_with_control_characters_slashes_and_brackets_come_back_as_they_are() {
    let hostile =
        ["Window[0]/Row[1]", "\u{1b}[2J", "\"},{\"type\":\"Button\"", "\u{202e}txt", "a\nb\0c", "../.."];
    let ui = Simulated::new();
    ui.change(|desk| desk.rows = hostile.map(str::to_owned).to_vec());
    let mut agent = Agent::new(&ui).await;
    let answer = agent.get("GetElementTree", json!({})).await;
    let children = answer["root"]["children"].as_array().unwrap();
    let names: Vec<&str> = children[3..].iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, hostile);
    for (position, name) in hostile.iter().enumerate() {
        let found = agent.get("FindElement", json!({ "name": name })).await;
        assert_eq!(found["path"], format!("Window[0]/Row[{position}]"), "{name:?}");
    }
}
