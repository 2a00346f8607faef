//! The contract of the tools over a simulated interface, called as an agent calls them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
}

struct Simulated {
    desk: Mutex<Desk>,
    changes: watch::Sender<u64>,
}

impl Simulated {
    fn new() -> Arc<Self> {
        Arc::new(Self { desk: Mutex::default(), changes: watch::channel(0).0 })
    }

    fn change(&self, change: impl FnOnce(&mut Desk)) {
        change(&mut self.desk.lock().unwrap());
        self.changes.send_modify(|number| *number += 1);
    }

    fn draw(&self) -> Tree {
        let desk = self.desk.lock().unwrap();
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
        for (id, name) in (100..).zip(&desk.rows) {
            window = window.with(TreeNode::new("Row").id(id).named(name).at(0.0, 200.0, 10.0, 10.0));
        }
        Tree::from_windows(vec![window])
    }
}

impl Ui for Simulated {
    fn tree(&self) -> BoxFuture<Result<Tree, UiError>> {
        let tree = self.draw();
        Box::pin(async move { Ok(tree) })
    }

    fn perform(&self, action: Action) -> BoxFuture<Result<(), UiError>> {
        if self.desk.lock().unwrap().is_broken {
            return Box::pin(async { Err(UiError::new("the mouse is broken")) });
        }
        let tree = self.draw();
        self.change(|desk| {
            match &action {
                Action::Click { at: (x, y), .. } => match tree.at(*x, *y).map(|hit| tree.id(hit).0) {
                    Some(2) => desk.is_focused = true,
                    Some(3) => desk.has_notice = true,
                    Some(4) => desk.is_checked = !desk.is_checked,
                    _ => {}
                },
                Action::Type { text, clear_first } if desk.is_focused => {
                    if *clear_first {
                        desk.text.clear();
                    }
                    desk.text.push_str(text);
                }
                Action::SetValue { element: ElementId(2), value } => desk.text.clone_from(value),
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
    assert!(ui.desk.lock().unwrap().has_notice);
}

#[tokio::test]
async fn a_click_on_nothing_is_an_answer_and_a_click_nowhere_is_a_failure() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let missed = agent.get("ClickElement", json!({ "x": 5000, "y": 5000 })).await;
    assert_eq!(missed["clicked"], false);
    assert!(ui.desk.lock().unwrap().seen.is_empty());
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
    assert_eq!(ui.desk.lock().unwrap().text, "Bread");
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
async fn a_wait_ends_with_the_change_and_a_wait_in_vain_is_an_answer() {
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
    assert_eq!(ui.desk.lock().unwrap().text, "Eggs");
    assert_eq!(agent.get("ToggleElement", json!({ "name": "Urgent", "on": true })).await["clicked"], true);
    assert_eq!(agent.get("ToggleElement", json!({ "name": "Urgent", "on": true })).await["clicked"], false);
    assert!(ui.desk.lock().unwrap().is_checked);
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
    assert_eq!(fresh.desk.lock().unwrap().text, "Milk");
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
