//! The lean view through the real program: rules, records and answers are those of the called tool.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::http;
use crate::rules::{home, start};

fn lean(gateway: &Gateway, method: &str, params: Value) -> Value {
    http::read(http::modern(&format!("{}/mcp/lean", gateway.url), method, params)).message()
}

fn call(gateway: &Gateway, name: &str, arguments: &Value) -> Value {
    lean(gateway, "tools/call", json!({ "name": name, "arguments": arguments }))
}

#[test]
fn rules_of_the_called_tool_decide_in_the_lean_view() {
    let rules = "[policy]\ndefault = \"deny\"\n[[rules]]\ntools = \"s:secret\"\ndo = \"hide\"\n\
                 [[rules]]\ntools = [\"s:read\", \"yard:search_tools\"]\ndo = \"allow\"\n";
    let home = home(rules);
    let gateway = start(&home);
    let listed = lean(&gateway, "tools/list", json!({}));
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(names, ["search_tools", "call_tool"]);
    let found = call(&gateway, "search_tools", &json!({ "query": "read write secret" })).to_string();
    assert!(
        found.contains("s__read") && !found.contains("s__write") && !found.contains("s__secret"),
        "{found}"
    );
    let through = |tool: &str| call(&gateway, "call_tool", &json!({ "name": tool, "arguments": { "a": 1 } }));
    assert!(through("s__read").to_string().contains("called with"));
    assert!(through("s__write").to_string().contains("s:write is denied to local"));
    let hidden = through("s__secret").to_string().replace("secret", "x");
    assert_eq!(hidden, through("s__nothing").to_string().replace("nothing", "x"));
}

#[test]
fn a_limit_of_the_called_tool_applies_to_calls_through_call_tool() {
    let home = home("[limits.once]\nwindow = \"1/1h\"\nqueue = 0\n[tools.\"s:pay\"]\nlimits = [\"once\"]\n");
    let gateway = start(&home);
    let through = |tool: &str| {
        let answer = call(&gateway, "call_tool", &json!({ "name": tool, "arguments": { "amount": 7 } }));
        answer["result"]["isError"] == true || !answer["error"].is_null()
    };
    assert!(!through("s__pay"), "the first call is within the limit");
    assert!(through("s__pay"), "the second one is refused");
    assert!(!through("s__read"), "other tools have no limit");
    // A direct call counts against the same limit.
    let direct = lean(&gateway, "tools/call", json!({ "name": "s__pay", "arguments": { "amount": 7 } }));
    assert!(direct.to_string().contains("limit"), "{direct}");
}

#[test]
fn the_record_of_a_call_through_call_tool_names_the_called_tool() {
    let home = home("[audit]\nenabled = true\n");
    let gateway = start(&home);
    let answer = call(&gateway, "call_tool", &json!({ "name": "s__pay", "arguments": { "amount": 7 } }));
    assert!(answer.to_string().contains("amount"), "{answer}");
    gateway.signal(Signal::SIGTERM);
    gateway.wait();
    let (code, records, _) = home.run(&["audit", "--json", "--state-dir", "state"]);
    assert_eq!(code, 0, "{records}");
    assert!(records.contains(r#""tool":"s:pay""#) && !records.contains("call_tool"), "{records}");
}
