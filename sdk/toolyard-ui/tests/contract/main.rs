//! The contract of the tools over a simulated interface, called as an agent calls them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod desk;
mod missing;
mod pictures;
mod steps;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use toolyard_ui::{Action, ElementId};

use desk::{Agent, Simulated};

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
    let reason = "there is no element at 5000, 5000";
    assert_eq!(missed, json!({ "x": 5000.0, "y": 5000.0, "clicked": false, "reason": reason }));
    assert!(ui.desk.lock().seen.is_empty());
    for arguments in [json!({}), json!({ "x": 1 }), json!({ "x": 1, "y": 1, "name": "Save" })] {
        let refused = agent.refused("ClickElement", arguments).await;
        assert!(refused.contains("Missing x or y coordinates"), "{refused}");
    }
}

#[tokio::test]
async fn text_goes_to_the_element_with_the_focus_or_at_a_place() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let nowhere = agent.get("TypeText", json!({ "text": "lost" })).await;
    assert_eq!(nowhere, json!({ "text": "lost", "typed": false, "reason": "no element has the focus" }));
    let typed = agent.get("TypeText", json!({ "text": "Milk", "path": "Window/TextInput" })).await;
    assert_eq!(typed["typed"], true);
    agent.get("TypeText", json!({ "text": "Bread", "clearFirst": true })).await;
    assert_eq!(ui.desk.lock().text, "Bread");
    assert!(agent.refused("TypeText", json!({})).await.contains("`text`"));
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
