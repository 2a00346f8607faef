//! A client gets the same bytes through the hub as from the instance itself.

use std::process::Child;

use serde_json::{Value, json};

use super::instance::{Instance, fixture};
use super::wire::Wire;
use super::{HUB_TOOLS, fitting_arguments, hub, wait_for};
use crate::support::Yard;

/// The same program, without the hub.
struct Direct {
    child: Child,
    wire: Wire,
}

impl Direct {
    fn start(era: &str) -> Self {
        let (child, address) = fixture(&["--tcp", "127.0.0.1:0", "--era", era], "tcp://");
        Self { child, wire: Wire::open(&address, None) }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session of the hub that is connected to the fixture, and the fixture itself.
fn check(era: &str, compare: impl Fn(&mut Wire, &mut Wire)) {
    let yard = Yard::start("");
    let _instance = Instance::start(&yard, "shop", era);
    wait_for(&mut hub(&yard), "shop");
    let mut through = Wire::open(yard.tcp(), Some("hub"));
    let connected = through.call("instances_connect", &json!({ "instance_id": "shop" }));
    assert!(connected.contains("Connected to instance shop"), "{connected}");
    let mut direct = Direct::start(era);
    compare(&mut through, &mut direct.wire);
}

/// Tools that ask the client something, which this client cannot answer, or that run as a task, which it does not
/// support. Between a client and an instance of different eras these are bridged, so they differ by design.
fn is_bridged(answer: &str) -> bool {
    ["does not declare", "runs as a task only"].iter().any(|words| answer.contains(words))
}

#[test]
fn every_tool_of_an_instance_answers_through_the_hub_as_it_does_directly() {
    for era in ["legacy", "both"] {
        check(era, |through, direct| {
            let mut compared = 0;
            for tool in direct.list("tools/list", "tools") {
                let name = tool["name"].as_str().unwrap();
                let arguments = fitting_arguments(&tool);
                let expected = direct.call(name, &arguments);
                if era == "both" && is_bridged(&expected) {
                    continue;
                }
                compared += 1;
                assert_eq!(through.call(name, &arguments), expected, "{era} {name}");
                for outer in [
                    json!({ "tool": name, "arguments": arguments }),
                    json!({ "tool": name, "arguments": arguments, "instance_id": "shop" }),
                ] {
                    assert_eq!(through.call("instances_call", &outer), expected, "{era} {name} by call");
                }
            }
            assert!(compared > if era == "both" { 18 } else { 35 }, "{era}: {compared}");
        });
    }
}

/// The entries of the hub's own are left out.
fn listed(wire: &mut Wire, method: &str, key: &str) -> Vec<String> {
    let entries = wire.list(method, key).into_iter();
    let own = |entry: &Value| entry["name"].as_str().is_some_and(|name| HUB_TOOLS.contains(&name));
    entries.filter(|entry| !own(entry)).map(|entry| entry.to_string()).collect()
}

#[test]
fn lists_of_an_instance_are_listed_by_the_hub_as_they_are() {
    check("legacy", |through, direct| {
        for (method, key) in [
            ("tools/list", "tools"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ] {
            let expected = listed(direct, method, key);
            assert!(!expected.is_empty(), "{method}");
            assert_eq!(listed(through, method, key), expected, "{method}");
        }
    });
}

#[test]
fn resources_through_the_hub_equal_direct_ones() {
    for era in ["legacy", "both"] {
        check(era, |through, direct| {
            let uris =
                direct.list("resources/list", "resources").into_iter().map(|entry| entry["uri"].clone());
            for uri in uris.chain([json!("test://template/123/data"), json!("test://nothing")]) {
                let expected = direct.ask("resources/read", &json!({ "uri": uri }));
                assert_eq!(through.ask("resources/read", &json!({ "uri": uri })), expected, "{era} {uri}");
            }
        });
    }
}

#[test]
fn prompts_through_the_hub_equal_direct_ones() {
    for era in ["legacy", "both"] {
        check(era, |through, direct| {
            let mut got = 0;
            for prompt in direct.list("prompts/list", "prompts") {
                let wanted = prompt["arguments"].as_array().cloned().unwrap_or_default();
                let given: serde_json::Map<String, Value> =
                    wanted.iter().map(|one| (one["name"].as_str().unwrap().to_owned(), json!("x"))).collect();
                let params = json!({ "name": prompt["name"], "arguments": given });
                let expected = direct.ask("prompts/get", &params);
                if era == "both" && !expected.contains("messages") {
                    continue;
                }
                assert_eq!(through.ask("prompts/get", &params), expected, "{era}");
                got += usize::from(expected.contains("messages"));
            }
            assert!(got >= 3, "{got}");
        });
    }
}

#[test]
fn completions_through_the_hub_equal_direct_ones() {
    check("both", |through, direct| {
        for reference in [
            json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" }),
            json!({ "type": "ref/resource", "uri": "test://template/{id}/data" }),
        ] {
            let params = json!({ "ref": reference, "argument": { "name": "id", "value": "t" } });
            let expected = direct.ask("completion/complete", &params);
            assert_eq!(through.ask("completion/complete", &params), expected);
        }
    });
}
