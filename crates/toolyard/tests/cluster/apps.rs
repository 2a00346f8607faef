//! Apps and instances: each is connected to one node, and all nodes list and call it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::http::{legacy, modern, open_session, read};
use super::nats::free_port;
use super::testkit;
use super::world::{Setup, World, eventually};

/// An app or an instance that is a process, reports who it is, and can be killed.
pub(crate) struct Mortal(Child);

impl Mortal {
    pub(crate) fn app(port: u16, name: &str) -> Self {
        Self::start(&["app", &format!("127.0.0.1:{port}"), name])
    }

    /// An instance whose file is in this folder of a node.
    pub(crate) fn instance(node: &Path, name: &str) -> Self {
        Self::start(&["instance", node.join("toolyard/instances").to_str().unwrap(), name])
    }

    fn start(words: &[&str]) -> Self {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| testkit::build_target("toolyard-app", ["--example", "mortal"]));
        let mut command = Command::new(program);
        Self(command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Mortal {
    /// With -9.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_app_and_an_instance_are_called_through_every_node() {
    let mut world = World::new();
    let port = free_port();
    world.start_with("a", Setup { apps: Some(port), ..Setup::default() });
    world.start_with("b", Setup { apps: Some(free_port()), ..Setup::default() });
    world.start("c", &[], "");
    let clock = Mortal::app(port, "Clock");
    let shop = Mortal::instance(world.node("b").folder(), "Shop");
    for (name, pid) in [("Clock", clock.pid()), ("Shop", shop.pid())] {
        let tool = format!("{name}__who");
        world.wait_for_tool(&tool);
        for node in ["a", "b", "c"] {
            let answer = world.node(node).call(&tool, &json!({ "word": node }));
            assert_eq!(answer, Ok(format!("{name} {pid} {node}")));
        }
    }
    let kinds = |node: &str| {
        let status = world.node(node).status();
        let owners = status["owners"].as_array().unwrap().clone();
        owners.iter().map(|owner| (owner["id"].clone(), owner["kind"].clone())).collect::<Vec<_>>()
    };
    assert!(kinds("c").contains(&(json!("Clock"), json!("app"))), "{:?}", kinds("c"));
    assert!(kinds("c").contains(&(json!("Shop"), json!("instance"))), "{:?}", kinds("c"));
    // A handle is valid at the node that issued it; the others pass it on.
    let text = world.node("b").call("yard__instances_connect", &json!({ "instance_id": "Shop" })).unwrap();
    let handle =
        text.split_whitespace().find(|word| word.starts_with("inst_")).unwrap_or_else(|| panic!("{text}"));
    let arguments = json!({ "handle": handle, "tool": "who", "arguments": { "word": "by handle" } });
    for node in ["a", "b", "c"] {
        let answer = world.node(node).call("yard__instances_call", &arguments);
        assert_eq!(answer, Ok(format!("Shop {} by handle", shop.pid())), "{node}");
    }
    drop(shop);
    eventually("the end of the instance at c", || {
        let is_gone = world.node("c").call("Shop__who", &json!({ "word": "x" })).is_err();
        is_gone.then_some(())
    });
}

/// What a tool of the hub answers to a session of it.
fn in_hub(url: &str, session: &str, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let reply = read(legacy(&format!("{url}/mcp/hub"), session, "tools/call", &params));
    reply.message()["result"].clone()
}

#[test]
fn the_hub_of_a_node_lists_and_connects_to_instances_of_other_nodes() {
    let mut world = World::new();
    world.start_with("a", Setup { apps: Some(free_port()), ..Setup::default() });
    world.start_with("b", Setup { apps: Some(free_port()), ..Setup::default() });
    world.start("c", &[], "");
    let shop = Mortal::instance(world.node("b").folder(), "Shop");
    let notes = Mortal::instance(world.node("a").folder(), "Notes");
    for tool in ["Shop__who", "Notes__who"] {
        world.wait_for_tool(tool);
    }
    let own = |node: &str| {
        let text = world.node(node).call("yard__instances_list", &json!({})).unwrap();
        let all: Value = serde_json::from_str(&text).unwrap();
        all.as_array()
            .unwrap()
            .iter()
            .map(|one| (one["upstream"].as_str().unwrap().to_owned(), one["pid"].clone()))
            .collect::<BTreeMap<_, _>>()
    };
    for node in ["a", "b", "c"] {
        eventually(&format!("both instances at {node}"), || {
            let found = own(node);
            let is_there = |name: &str, pid: u32| found.get(name) == Some(&json!(pid));
            (is_there("Shop", shop.pid()) && is_there("Notes", notes.pid())).then_some(())
        });
        let url = world.node(node).url.clone();
        let session = open_session(&format!("{url}/mcp/hub"));
        for (name, pid) in [("Shop", shop.pid()), ("Notes", notes.pid())] {
            let connected = in_hub(&url, &session, "instances_connect", &json!({ "instance_id": name }));
            assert_eq!(connected["isError"], Value::Null, "{node}: {connected}");
            let listed =
                read(legacy(&format!("{url}/mcp/hub"), &session, "tools/list", &json!({}))).tool_names();
            assert!(listed.contains(&"who".to_owned()), "{node}: {listed:?}");
            let answer = in_hub(&url, &session, "who", &json!({ "word": node }));
            assert_eq!(answer["content"][0]["text"], format!("{name} {pid} {node}"), "{node}: {answer}");
        }
        let health = in_hub(&url, &session, "instances_health", &json!({}));
        assert_eq!(health["structuredContent"]["healthy_instances"], 2, "{node}: {health}");
    }
    drop(shop);
    eventually("the end of the instance at c", || (!own("c").contains_key("Shop")).then_some(()));
    assert!(own("c").contains_key("Notes"));
}

#[test]
fn a_node_that_does_not_listen_is_reached_through_nats() {
    let mut world = World::new();
    let port = free_port();
    world.start_with("laptop", Setup { apps: Some(port), cluster: "listen", ..Setup::default() });
    world.start("server", &["one"], "");
    let clock = Mortal::app(port, "Clock");
    world.wait_for_tool("Clock__who");
    world.wait_for_tool("one__pid");
    let answer = world.node("server").call("Clock__who", &json!({ "word": "hi" }));
    assert_eq!(answer, Ok(format!("Clock {} hi", clock.pid())));
    // Many times the credit of a stream, in both directions at once.
    let bytes = 3_000_000;
    let params = json!({ "name": "Clock__picture", "arguments": { "bytes": bytes } });
    let reply = read(modern(&world.node("server").url, "tools/call", params));
    let data = reply.message()["result"]["content"][0]["data"].as_str().unwrap().len();
    assert_eq!(data, bytes / 3 * 4);
    let long = "w".repeat(1_000_000);
    let answer = world.node("server").call("Clock__who", &json!({ "word": long })).unwrap();
    assert!(answer.ends_with(&long));
    let status = world.node("server").status();
    let nodes = status["nodes"].as_array().unwrap();
    let laptop = nodes.iter().find(|node| node["node"] == "laptop").unwrap();
    assert_eq!(laptop["link"]["by"], "nats", "{laptop}");
    let status = world.node("laptop").status();
    let nodes = status["nodes"].as_array().unwrap();
    let server = nodes.iter().find(|node| node["node"] == "server").unwrap();
    assert_eq!(server["link"]["by"], "direct", "{server}");
}
