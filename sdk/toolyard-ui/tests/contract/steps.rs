//! Steps that are recorded, and done again.

use serde_json::{Value, json};
use toolyard_ui::{Step, replay};

use crate::desk::{Agent, Simulated};

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

fn step(tool: &str, arguments: Value) -> Step {
    Step { tool: tool.to_owned(), arguments }
}

#[tokio::test]
async fn the_arguments_of_a_step_are_refused_where_those_of_a_call_are() {
    let ui = Simulated::new();
    let mut agent = Agent::new(&ui).await;
    for (tool, arguments) in [
        ("ClickElement", json!({ "name": "Save", "count": 4_294_967_295_u32 })),
        ("ClickElement", json!({ "name": "Save", "count": 0 })),
        ("ClickElement", json!({ "name": "Save", "path": "Window/Button" })),
        ("ClickElement", Value::Null),
        ("TypeText", json!({ "text": "Milk", "x": 1 })),
        ("SetValue", json!({ "value": "Milk" })),
        ("ToggleElement", json!({})),
        ("SelectElement", json!({})),
        ("ScrollElement", json!({ "dy": 1 })),
        ("PressKey", json!({ "key": "a".repeat(21) })),
        ("DragElement", json!({ "from": "Window/Button" })),
        ("AssertElement", json!({})),
        ("WaitForElement", json!({ "visible": false })),
    ] {
        let call = agent.refused(tool, arguments.clone()).await;
        let failed = replay(ui.clone(), &[step(tool, arguments.clone())]).await.unwrap_err();
        assert_eq!(failed.why, format!("{tool}: {call}"), "{arguments}");
        let steps = json!({ "steps": [step(tool, arguments)] });
        let replayed = agent.refused("ReplaySteps", steps).await;
        assert_eq!(replayed, format!("step 1: {tool}: {call}"));
    }
    assert_eq!(ui.done(), [], "nothing was done");
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_a_step_is_bounded_as_a_call_is() {
    let started = tokio::time::Instant::now();
    let wait = step("WaitForElement", json!({ "name": "Saved", "timeout": 3_600_000 }));
    replay(Simulated::new(), &[wait]).await.unwrap_err();
    let took = started.elapsed();
    assert_eq!(took.as_secs(), 60);
}

#[tokio::test]
async fn a_step_whose_element_is_missing_fails_with_the_reason() {
    for (tool, arguments, why) in [
        ("ClickElement", json!({ "name": "Quit" }), "there is no element named `Quit`"),
        ("ClickElement", json!({ "x": 900, "y": 1 }), "there is no element at 900, 1"),
        ("TypeText", json!({ "text": "lost" }), "no element has the focus"),
        ("SetValue", json!({ "name": "Saved", "value": "" }), "the element named `Saved` is hidden"),
        ("DragElement", json!({ "from": "Window/Button", "to": "Window/Tab" }), "no element at `Window/Tab`"),
    ] {
        let failed = replay(Simulated::new(), &[step(tool, arguments)]).await.unwrap_err();
        assert!(failed.why.starts_with(tool) && failed.why.contains(why), "{failed}");
    }
}
