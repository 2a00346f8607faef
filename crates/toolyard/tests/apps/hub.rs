//! The hub: sessions that connect to instances, by raw lines over TCP. The instances are programs of their own.

mod doors;
mod flow;
mod handles;
pub(crate) mod instance;
mod restart;
mod same;
mod sessions;
mod turning;
mod wire;

use serde_json::{Value, json};

use crate::support::{Agent, Yard, eventually};
use instance::Instance;

const HUB_TOOLS: [&str; 5] =
    ["instances_call", "instances_connect", "instances_disconnect", "instances_health", "instances_list"];

fn hub(yard: &Yard) -> Agent {
    Agent::in_view(yard, "hub")
}

/// Waits until an instance is listed as ready.
fn wait_for(agent: &mut Agent, id: &str) -> Value {
    eventually("an active instance", || {
        let listed = agent.call("instances_list", &json!({}))["structuredContent"]["instances"].take();
        listed.as_array()?.iter().find(|one| one["id"] == id && one["state"] == "active").cloned()
    })
}

fn connect(agent: &mut Agent, id: &str) {
    let result = agent.call("instances_connect", &json!({ "instance_id": id }));
    assert_eq!(result["structuredContent"]["message"], format!("Connected to instance {id}"), "{result}");
}

/// Arguments that match the schema of a tool: a value of the right type for each required one. The gateway, not the
/// instance, would refuse others.
fn fitting_arguments(tool: &Value) -> Value {
    let schema = &tool["inputSchema"];
    if schema["properties"]["contactMethod"].is_object() {
        // Which of its arguments are required depends on another one.
        return json!({ "contactMethod": "phone", "phone": "+1 555 0100" });
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| match &schema["properties"][name] {
        property if property["enum"].is_array() => property["enum"][0].clone(),
        property => match property["type"].as_str() {
            Some("integer" | "number") => json!(1),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("ümläut \u{1f600} \\ \" /"),
        },
    };
    required.map(|name| (name.to_owned(), value(name))).collect::<serde_json::Map<_, _>>().into()
}

fn error_text(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn an_instance_is_listed_connected_to_listed_again_and_called() {
    let yard = Yard::start("");
    let instance = Instance::start(&yard, "shop-0a1b", "both");
    let mut agent = hub(&yard);
    assert_eq!(agent.tools(), HUB_TOOLS);
    wait_for(&mut agent, "shop-0a1b");

    let refused = agent.call("test_simple_text", &json!({}));
    let text = error_text(&refused);
    assert!(text.contains("not connected to an instance") && text.contains("instances_connect"), "{text}");

    connect(&mut agent, "shop-0a1b");
    agent.wait_for_news(|tools| tools.iter().any(|tool| tool == "test_simple_text"));
    let tools = agent.tools();
    assert!(HUB_TOOLS.iter().all(|own| tools.iter().any(|tool| tool == own)), "{tools:?}");
    let called = agent.call("test_simple_text", &json!({}));
    assert_eq!(called["content"][0]["type"], "text", "{called}");

    agent.received.clear();
    agent.call("instances_disconnect", &json!({}));
    agent.wait_for_news(|tools| tools == HUB_TOOLS);
    let refused = agent.call("test_simple_text", &json!({}));
    assert!(error_text(&refused).contains("not connected to an instance"), "{refused}");
    drop(instance);
}
