//! Apps and instances: each is connected to one node, and all nodes list and call it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::json;

use super::http::{modern, read};
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
    let word = "w".repeat(1_000_000);
    let answer = world.node("server").call("Clock__who", &json!({ "word": word })).unwrap();
    assert!(answer.ends_with(&word));
    let status = world.node("server").status();
    let nodes = status["nodes"].as_array().unwrap();
    let laptop = nodes.iter().find(|node| node["node"] == "laptop").unwrap();
    assert_eq!(laptop["link"]["by"], "nats", "{laptop}");
    let status = world.node("laptop").status();
    let nodes = status["nodes"].as_array().unwrap();
    let server = nodes.iter().find(|node| node["node"] == "server").unwrap();
    assert_eq!(server["link"]["by"], "direct", "{server}");
}
