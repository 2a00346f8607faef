//! An element that does not exist or is hidden is an answer, not a failure.

use serde_json::{Value, json};

use crate::desk::{Agent, Simulated};

/// The answer to a call for an element that is missing, without its reason, which must contain `why`.
async fn answer(agent: &mut Agent, tool: &str, arguments: Value, why: &str) -> Value {
    let mut answer = agent.get(tool, arguments.clone()).await;
    let reason = answer["reason"].take();
    let text = reason.as_str().unwrap_or_else(|| panic!("{tool} {arguments}: {answer}"));
    assert!(text.contains(why), "{tool} {arguments}: {text}");
    answer.as_object_mut().unwrap().remove("reason");
    answer
}

#[tokio::test]
async fn a_click_and_text_for_a_missing_element_are_answered_with_the_reason() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    for (selector, why) in [
        (json!({ "name": "Quit" }), "there is no element named `Quit`; `GetElementTree` lists"),
        (json!({ "path": "Window/Button[7]" }), "there is no element at `Window/Button[7]`"),
        (json!({ "x": 1, "y": 1, "window": "Window[3]" }), "there is no element at `Window[3]`"),
        (json!({ "name": "Saved" }), "the element named `Saved` is hidden"),
    ] {
        let clicked = answer(&mut agent, "ClickElement", selector, why).await;
        assert_eq!(clicked["clicked"], false, "{clicked}");
    }
    let text = json!({ "text": "Milk", "path": "Window/TextInput[1]" });
    let typed = answer(&mut agent, "TypeText", text, "there is no element at `Window/TextInput[1]`").await;
    assert_eq!(typed, json!({ "text": "Milk", "typed": false }));
    assert_eq!(ui.done(), [], "nothing was done");
}

#[tokio::test]
async fn all_tools_that_name_an_element_answer_alike_if_it_is_missing() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    for (tool, arguments) in [
        ("SetValue", json!({ "path": "Window/Tab", "value": "1" })),
        ("ToggleElement", json!({ "path": "Window/Tab" })),
        ("SelectElement", json!({ "path": "Window/Tab" })),
        ("ScrollElement", json!({ "path": "Window/Tab", "dy": 1 })),
        ("PressKey", json!({ "path": "Window/Tab", "key": "a" })),
        ("DragElement", json!({ "from": "Window/Tab", "to": "Window/Button" })),
        ("DragElement", json!({ "from": "Window/Button", "to": "Window/Tab" })),
    ] {
        let acted = answer(&mut agent, tool, arguments, "there is no element at `Window/Tab`").await;
        let expected = if tool == "ToggleElement" {
            json!({ "done": false, "clicked": false })
        } else {
            json!({ "done": false })
        };
        assert_eq!(acted, expected, "{tool}");
    }
    for tool in ["GetElementTree", "CaptureScreenshot"] {
        let shown =
            answer(&mut agent, tool, json!({ "path": "Window/Tab" }), "no element at `Window/Tab`").await;
        assert_eq!(shown, json!({ "found": false }), "{tool}");
    }
    assert_eq!(ui.done(), [], "nothing was done");
}

#[tokio::test]
async fn tools_that_have_acted_say_so() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    let set = agent.get("SetValue", json!({ "name": "Title", "value": "Eggs" })).await;
    assert_eq!(set, json!({ "done": true }));
    let toggled = agent.get("ToggleElement", json!({ "name": "Urgent", "on": false })).await;
    assert_eq!(toggled, json!({ "done": true, "clicked": false }));
    assert_eq!(agent.get("GetElementTree", json!({})).await["found"], true);
}
