//! A session that switches to another instance leaves nothing behind at the first.

use serde_json::json;

use super::instance::Instance;
use super::{connect, hub, wait_for};
use crate::support::{Yard, eventually};

const WATCHED: &str = "test://watched-resource";

#[test]
fn switching_to_another_instance_ends_the_session_at_the_first() {
    let yard = Yard::start("");
    let (_one, seen) = Instance::start_behind_proxy(&yard, "one", "legacy");
    let _two = Instance::start(&yard, "two", "legacy");
    let mut agent = hub(&yard);
    wait_for(&mut agent, "one");
    wait_for(&mut agent, "two");
    for turn in [json!({ "instance_id": "two" }), json!({})] {
        connect(&mut agent, "one");
        assert_eq!(agent.call("test_echo", &json!({ "text": "one" }))["content"][0]["text"], "one");
        let watched = agent.ask("resources/subscribe", json!({ "uri": WATCHED }));
        assert_eq!(watched["result"], json!({}), "{watched}");
        assert!(!seen.has_passed("DELETE"), "the session is used");
        let tool = if turn == json!({}) { "instances_disconnect" } else { "instances_connect" };
        agent.call(tool, &turn);
        eventually("the session to be ended", || seen.has_passed("DELETE").then_some(()));
        seen.forget();
    }
}

#[test]
fn an_instance_receives_the_last_unsubscribe_of_a_resource() {
    let yard = Yard::start("");
    let (_shop, seen) = Instance::start_behind_proxy(&yard, "shop", "legacy");
    let mut agent = hub(&yard);
    wait_for(&mut agent, "shop");
    connect(&mut agent, "shop");
    for _ in 0..2 {
        agent.ask("resources/subscribe", json!({ "uri": WATCHED }));
        assert!(seen.has_passed("resources/subscribe"));
        assert!(!seen.has_passed("resources/unsubscribe"));
        agent.ask("resources/unsubscribe", json!({ "uri": WATCHED }));
        eventually("the unsubscribe", || seen.has_passed("resources/unsubscribe").then_some(()));
        seen.forget();
    }
}
