//! Which session sees which instance.

use serde_json::json;

use super::instance::{Hosted, Instance};
use super::{HUB_TOOLS, connect, error_text, hub, wait_for};
use crate::support::{Agent, Yard, eventually};
use toolyard_tool::{ToolSet, tool};

/// Returns where it is.
#[tool]
async fn here() -> &'static str {
    "one"
}

/// Returns where it is.
#[tool]
async fn there() -> &'static str {
    "two"
}

/// Has the same name as a tool of the hub.
#[tool]
async fn instances_list() -> &'static str {
    "the instance's own"
}

fn one(yard: &Yard) -> Hosted {
    Hosted::start(yard, "one", ToolSet::new("one", "1.0.0").with::<here>().with::<instances_list>())
}

fn two(yard: &Yard) -> Hosted {
    Hosted::start(yard, "two", ToolSet::new("two", "1.0.0").with::<there>())
}

fn beside_hub(agent: &mut Agent) -> Vec<String> {
    agent.tools().into_iter().filter(|tool| !HUB_TOOLS.contains(&tool.as_str())).collect()
}

fn answer_of(agent: &mut Agent, tool: &str) -> String {
    agent.call(tool, &json!({}))["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn two_sessions_on_two_instances_see_nothing_of_each_other() {
    let yard = Yard::start("");
    let (_one, _two) = (one(&yard), two(&yard));
    let (mut ann, mut bob, mut eve) = (hub(&yard), hub(&yard), hub(&yard));
    wait_for(&mut ann, "one");
    wait_for(&mut ann, "two");
    connect(&mut ann, "one");
    connect(&mut bob, "two");
    assert_eq!((beside_hub(&mut ann), beside_hub(&mut bob)), (vec!["here".into()], vec!["there".into()]));
    assert_eq!((answer_of(&mut ann, "here"), answer_of(&mut bob, "there")), ("one".into(), "two".into()));
    let unknown = ann.ask("tools/call", json!({ "name": "there", "arguments": {} }));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(error_text(&eve.call("here", &json!({}))).contains("not connected to an instance"));
    let listed = wait_for(&mut bob, "two");
    assert_eq!((&listed["sessions"], &listed["current"]), (&json!(1), &json!(true)), "{listed}");
    // Eve's session is not affected by those of Ann and Bob.
    assert_eq!(beside_hub(&mut eve), Vec::<String>::new());
    assert_eq!(eve.changes_within(std::time::Duration::from_millis(50)), 0);
    bob.leave();
    eventually("the session to be forgotten", || (wait_for(&mut ann, "two")["sessions"] == 0).then_some(()));
}

#[test]
fn connecting_to_another_instance_switches_and_announces_it() {
    let yard = Yard::start("");
    let (_one, _two) = (one(&yard), two(&yard));
    let mut agent = hub(&yard);
    wait_for(&mut agent, "one");
    wait_for(&mut agent, "two");
    connect(&mut agent, "one");
    agent.wait_for_news(|tools| tools.contains(&"here".to_owned()));
    connect(&mut agent, "two");
    agent.wait_for_news(|tools| tools.contains(&"there".to_owned()) && !tools.contains(&"here".to_owned()));
    // Connecting to the same instance again changes nothing.
    agent.received.clear();
    connect(&mut agent, "two");
    assert_eq!(agent.changes_within(std::time::Duration::from_millis(50)), 0);
    assert_eq!(answer_of(&mut agent, "there"), "two");
}

#[test]
fn the_hubs_own_tools_take_precedence_and_can_be_called_with_a_slash() {
    let yard = Yard::start("");
    let _one = one(&yard);
    let mut agent = hub(&yard);
    wait_for(&mut agent, "one");
    for alias in ["instances/list", "instances/health", "instances/disconnect"] {
        let result = agent.call(alias, &json!({}));
        assert!(result["isError"].is_null(), "{alias}: {result}");
    }
    let refused = agent.call("instances/call", &json!({ "tool": "here" }));
    assert!(error_text(&refused).contains("not connected to an instance"), "{refused}");
    agent.call("instances/connect", &json!({ "instance_id": "one" }));
    assert_eq!(answer_of(&mut agent, "here"), "one");
    let names = agent.tools();
    assert_eq!(names.iter().filter(|name| *name == "instances_list").count(), 1, "{names:?}");
    assert!(agent.call("instances_list", &json!({}))["structuredContent"]["instances"].is_array());
    // While connected, no id is needed; and a call by id reaches the tool that the hub's own name hides.
    for arguments in
        [json!({ "tool": "instances_list" }), json!({ "tool": "instances_list", "instance_id": "one" })]
    {
        let result = agent.call("instances_call", &arguments);
        assert_eq!(result["content"][0]["text"], "the instance's own", "{result}");
    }
}

#[test]
fn a_failed_connect_is_an_error_with_the_reason() {
    let yard = Yard::start("");
    let free_port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let about = json!({ "id": "ghost", "name": "ghost", "directory": "/srv", "port": free_port });
    yard.write_instance("brummer", "ghost.json", &about.to_string());
    let mut agent = hub(&yard);
    eventually("the instance", || {
        let listed = agent.call("instances_list", &json!({}));
        (listed["structuredContent"]["instances"][0]["id"] == "ghost").then_some(())
    });
    for (tool, arguments, expected) in [
        ("instances_connect", json!({ "instance_id": "ghost" }), "instance not active"),
        ("instances_connect", json!({ "instance_id": "nowhere" }), "instance not found: nowhere"),
        ("instances_connect", json!({}), "`instance_id` is missing"),
        ("instances_connect", json!({ "instance_id": 7 }), "`instance_id` must be a text"),
        ("instances_call", json!({ "tool": "x" }), "not connected to an instance"),
        ("instances_call", json!({ "tool": "x", "instance_id": "ghost" }), "instance `ghost` is "),
        ("instances_call", json!({ "instance_id": "ghost" }), "`tool` is missing"),
        ("instances_health", json!({ "instance_id": "nowhere" }), "instance not found: nowhere"),
    ] {
        let result = agent.call(tool, &arguments);
        assert!(error_text(&result).contains(expected), "{tool} {arguments}: {result}");
    }
    assert_eq!(beside_hub(&mut agent), Vec::<String>::new());
}

#[test]
fn an_instance_that_ends_takes_its_tools_along_and_comes_back_under_its_id() {
    let yard = Yard::start("");
    let instance = Instance::start(&yard, "shop", "both");
    let mut agent = hub(&yard);
    wait_for(&mut agent, "shop");
    connect(&mut agent, "shop");
    agent.wait_for_news(|tools| tools.contains(&"test_echo".to_owned()));
    std::fs::remove_file(&instance.file).unwrap();
    agent.wait_for_news(|tools| tools == HUB_TOOLS);
    let refused = agent.call("test_echo", &json!({ "text": "x" }));
    assert!(
        error_text(&refused).contains("not connected to an instance: `shop` is no longer there"),
        "{refused}"
    );
    drop(instance);
    let _again = Instance::start(&yard, "shop", "both");
    agent.wait_for_news(|tools| tools.contains(&"test_echo".to_owned()));
    assert_eq!(agent.call("test_echo", &json!({ "text": "back" }))["content"][0]["text"], "back");
}
