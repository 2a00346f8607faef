//! Instances without a session: the same tools at `/mcp`, with handles, for clients of every era.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::instance::{Instance, fixture};
use super::wire::Wire;
use super::{error_text, fitting_arguments};
use crate::support::{Agent, Yard, eventually};

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn wait_for_shop(agent: &mut Agent) {
    eventually("its tools", || agent.tools().iter().any(|tool| tool == "shop__test_echo").then_some(()));
}

fn handle(agent: &mut Agent) -> String {
    let result = agent.call("yard__instances_connect", &json!({ "instance_id": "shop" }));
    let connected = &result["structuredContent"];
    assert_eq!(
        (&connected["instance_id"], &connected["expires_after_idle_seconds"]),
        (&json!("shop"), &json!(3600))
    );
    connected["handle"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

fn echo(handle: &str) -> Value {
    json!({ "handle": handle, "tool": "test_echo", "arguments": { "text": "hi" } })
}

#[test]
fn a_handle_survives_the_gateway_for_its_owner() {
    let mut yard = Yard::start("");
    let _instance = Instance::start(&yard, "shop", "both");
    let mut agent = yard.agent();
    wait_for_shop(&mut agent);
    let key = handle(&mut agent);
    yard.restart();
    let mut agent = yard.agent();
    wait_for_shop(&mut agent);
    let result = agent.call("yard__instances_call", &echo(&key));
    assert_eq!(result["content"][0]["text"], "hi", "{result}");
    agent.call("yard__instances_disconnect", &json!({ "handle": key }));
    let refused = agent.call("yard__instances_call", &echo(&key));
    assert!(error_text(&refused).contains("the handle was released"), "{refused}");
}

#[test]
fn a_handle_calls_an_instance_from_any_connection_and_lists_stay_as_they_are() {
    let yard = Yard::start("");
    let _instance = Instance::start(&yard, "shop", "both");
    let mut agent = yard.agent();
    wait_for_shop(&mut agent);
    let mut session = yard.agent().shake_hands();
    let before = agent.ask("tools/list", json!({}))["result"]["tools"].to_string();
    let key = handle(&mut agent);
    assert!(key.len() >= 22, "128 bits at least: {key}");
    assert_eq!(agent.ask("tools/list", json!({}))["result"]["tools"].to_string(), before);
    // Another connection of the same principal, and one of another era.
    for other in [&mut yard.agent(), &mut session] {
        let result = other.call("yard__instances_call", &echo(&key));
        assert_eq!(result["content"][0]["text"], "hi", "{result}");
    }
    let listed = agent.call("yard__instances_list", &json!({}));
    assert_eq!(listed["structuredContent"]["instances"][0]["sessions"], 1, "{listed}");
    assert_eq!(session.changes_within(std::time::Duration::from_millis(50)), 0);

    agent.call("yard__instances_disconnect", &json!({ "handle": key }));
    for (tool, arguments, expected) in [
        ("yard__instances_call", echo(&key), "the handle was released"),
        ("yard__instances_call", echo("inst_guessed"), "belongs to another client"),
        ("yard__instances_call", json!({ "tool": "test_echo" }), "not connected to an instance"),
        ("yard__instances_disconnect", json!({ "handle": key }), "was released"),
        ("yard__instances_disconnect", json!({}), "`handle` is missing"),
        (
            "yard__instances_call",
            json!({ "tool": "nothing", "instance_id": "shop" }),
            "has no tool `nothing`; it has test_",
        ),
        (
            "yard__instances_call",
            json!({ "tool": "test_echo", "instance_id": "shop", "arguments": [] }),
            "must be an object",
        ),
    ] {
        let result = agent.call(tool, &arguments);
        assert!(error_text(&result).contains(expected), "{tool} {arguments}: {result}");
    }
}

#[test]
fn a_handle_is_refused_for_other_principals() {
    let yard = Yard::start(&format!("\n[auth]\nsecret = \"{SECRET}\"\n"));
    let _instance = Instance::start(&yard, "shop", "both");
    let agent = |name: &str| {
        let mut agent = yard.agent();
        agent.write(&json!({ "toolyard": 1, "token": yard.token(name) }));
        agent
    };
    let (mut ann, mut bob) = (agent("ann"), agent("bob"));
    wait_for_shop(&mut ann);
    let key = handle(&mut ann);
    let refused = bob.call("yard__instances_call", &echo(&key));
    assert!(error_text(&refused).contains("belongs to another client"), "{refused}");
    let refused = bob.call("yard__instances_disconnect", &json!({ "handle": key }));
    assert!(error_text(&refused).contains("belongs to another client"), "{refused}");
    assert_eq!(ann.call("yard__instances_call", &echo(&key))["content"][0]["text"], "hi");
    // Nor is it in any log.
    assert!(!yard.stderr().contains(&key), "{}", yard.stderr());
}

#[test]
fn a_call_by_handle_or_id_is_answered_as_one_by_name() {
    let yard = Yard::start("");
    let _instance = Instance::start(&yard, "shop", "both");
    let mut agent = yard.agent();
    wait_for_shop(&mut agent);
    let key = handle(&mut agent);
    let (mut child, address) = fixture(&["--tcp", "127.0.0.1:0", "--era", "both"], "tcp://");
    let (mut through, mut direct) = (Wire::alone(yard.tcp()), Wire::alone(&address));
    let (mut compared, mut same) = (0, 0);
    for tool in direct.list("tools/list", "tools") {
        let name = tool["name"].as_str().unwrap();
        // The sealed state is valid for the one request that was made.
        let arguments = fitting_arguments(&tool);
        let own = direct.call(name, &arguments);
        if own.contains("input_required") || own.contains("taskId") {
            continue;
        }
        let by_name = through.call(&format!("shop__{name}"), &arguments);
        for outer in [json!({ "instance_id": "shop" }), json!({ "handle": key })] {
            let mut outer = outer;
            outer["tool"] = json!(name);
            outer["arguments"] = arguments.clone();
            assert_eq!(through.call("yard__instances_call", &outer), by_name, "{name}");
        }
        compared += 1;
        // Resource links have other names here, and no name if the answer was not about a resource.
        same += usize::from(by_name == own);
        assert!(by_name == own || own.contains("://"), "{name}: {by_name} {own}");
    }
    assert!(compared > 20 && same > 15, "{compared} {same}");
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn tools_outside_a_profile_cannot_be_called_by_id_either() {
    let yard = Yard::start("\n[profiles.bare]\nupstreams = [\"yard\"]\n");
    let _instance = Instance::start(&yard, "shop", "both");
    wait_for_shop(&mut yard.agent());
    let mut agent = Agent::in_view(&yard, "p/bare");
    let call = json!({ "instance_id": "shop", "tool": "test_echo", "arguments": { "text": "hi" } });
    let refused = agent.call("yard__instances_call", &call);
    assert!(error_text(&refused).contains("instance `shop` is not in this profile"), "{refused}");
    // A view that shows only `yard` has nothing to leave out.
    let mut alone = Agent::in_view(&yard, "yard");
    assert_eq!(alone.call("instances_call", &call)["content"][0]["text"], "hi");
}

/// Posts a stateless call to `/mcp`; returns the result.
fn post(yard: &Yard, name: &str, arguments: &Value) -> Value {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": "p" });
    let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = yard.http(None).into_stream();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The answer comes last, in a stream or as a body.
    let last =
        answer.lines().rev().find(|line| line.contains("\"result\"") || line.contains("\"error\"")).unwrap();
    let start = last.find('{').unwrap();
    serde_json::from_str::<Value>(&last[start..]).unwrap_or_else(|_| panic!("{answer}"))["result"].take()
}

#[test]
fn over_http_a_stateless_call_reaches_an_instance_with_the_headers_of_its_tool() {
    let yard = Yard::start("");
    let _instance = Instance::start(&yard, "shop", "both");
    wait_for_shop(&mut yard.agent());
    let key = post(&yard, "yard__instances_connect", &json!({ "instance_id": "shop" }));
    let key = key["structuredContent"]["handle"].clone();
    for (tool, arguments, expected) in [
        ("test_echo", json!({ "text": "alone" }), "alone"),
        // Its argument is also sent in a header, which the instance requires.
        ("test_x_mcp_header", json!({ "region": "eu-1" }), "eu-1"),
        ("test_tool_with_progress", json!({}), "Progress was reported"),
    ] {
        let result = post(
            &yard,
            "yard__instances_call",
            &json!({ "handle": key, "tool": tool, "arguments": arguments }),
        );
        assert!(result["content"][0]["text"].as_str().unwrap().contains(expected), "{tool}: {result}");
        assert_eq!(result["isError"], Value::Null, "{tool}: {result}");
    }
    let refused = post(&yard, "yard__instances_call", &json!({ "tool": "test_echo" }));
    assert!(error_text(&refused).contains("not connected to an instance"), "{refused}");
    assert_eq!(refused["resultType"], "complete", "{refused}");
}
