//! `[[rules]]`: what principals see and may call, through the real program.

use serde_json::{Value, json};

use crate::gateway::{Gateway, Home};
use crate::http;

/// A server with tools of several kinds, which returns the arguments that it was called with.
pub(crate) const SERVER: &str = r#"
import json, sys
TOOLS = [
    {"name": "read", "annotations": {"readOnlyHint": True, "destructiveHint": False}, "inputSchema": {"type": "object"}},
    {"name": "write", "inputSchema": {"type": "object"}},
    {"name": "secret", "inputSchema": {"type": "object"}},
    {"name": "pay", "inputSchema": {"type": "object"}},
]
RESOURCES = [{"uri": uri, "name": uri} for uri in ("file:///srv/a", "file:///etc/b")]
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}, "prompts": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": TOOLS},
        "resources/list": {"resources": RESOURCES},
        "prompts/list": {"prompts": [{"name": "plain"}, {"name": "internal"}]},
        "resources/read": {"contents": [{"uri": m.get("params", {}).get("uri"), "text": "the text"}]},
        "tools/call": {"content": [{"type": "text", "text": "called with " + json.dumps(m["params"])}]},
    }.get(m["method"])
    if m["method"] == "tools/call": open("calls", "a").write(json.dumps(m["params"]) + "\n")
    answer = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **answer}), flush=True)
"#;

pub(crate) fn home(rules: &str) -> Home {
    let home = Home::new();
    home.write("server.py", SERVER);
    let config = format!("[upstreams.s]\ncommand = \"python3\"\nargs = [\"server.py\"]\n{rules}");
    home.write("config.toml", &config);
    home
}

pub(crate) fn start(home: &Home) -> Gateway {
    let gateway = home.start(&["--config", "config.toml"]);
    names(&gateway);
    gateway
}

fn names(gateway: &Gateway) -> Vec<String> {
    let names = http::read(http::modern(&gateway.url, "tools/list", json!({}))).tool_names();
    names.into_iter().filter(|name| name.starts_with("s__")).collect()
}

pub(crate) fn call(gateway: &Gateway, name: &str, arguments: &Value) -> String {
    let params = json!({ "name": name, "arguments": arguments });
    http::read(http::modern(&gateway.url, "tools/call", params)).message().to_string()
}

#[test]
fn without_a_rule_nothing_changes_and_with_one_the_default_decides_the_rest() {
    let home = home("[policy]\ndefault = \"deny\"\n");
    assert_eq!(names(&start(&home)), ["s__read", "s__write", "s__secret", "s__pay"]);
    let home = self::home("[policy]\ndefault = \"deny\"\n[[rules]]\ntools = \"s:read\"\ndo = \"allow\"\n");
    let gateway = start(&home);
    assert_eq!(names(&gateway), ["s__read"]);
    assert!(call(&gateway, "s__read", &json!({})).contains("called with"));
    assert!(call(&gateway, "s__write", &json!({})).contains("s:write is denied to local"));
    assert!(call(&gateway, "yard__status", &json!({})).contains("denied"));
}

#[test]
fn hidden_tools_seem_not_to_exist() {
    let home = home("[[rules]]\ntools = \"s:secret\"\ndo = \"hide\"\n");
    let gateway = start(&home);
    assert_eq!(names(&gateway), ["s__read", "s__write", "s__pay"]);
    let hidden = call(&gateway, "s__secret", &json!({})).replace("secret", "x");
    let unknown = call(&gateway, "s__nothing", &json!({})).replace("nothing", "x");
    assert_eq!(hidden, unknown);
    let found = call(&gateway, "yard__search_tools", &json!({ "query": "secret" }));
    assert!(!found.contains("s__secret"), "{found}");
}

#[test]
fn conditions_on_arguments_decide_each_call() {
    let rules = "[[rules]]\ntools = \"s:write\"\nargs = { \"/path\" = { below = \"/srv\" } }\ndo = \"allow\"\n\
                 [[rules]]\ntools = \"s:pay\"\nwhen = 'args.amount < 100 && who.name == \"local\"'\ndo = \"allow\"\n\
                 [[rules]]\ntools = [\"s:write\", \"s:pay\"]\ndo = \"deny\"\n";
    let home = home(rules);
    let gateway = start(&home);
    assert_eq!(names(&gateway).len(), 4, "a tool that may be called with some arguments is seen");
    let check = |tool: &str, arguments: Value, is_allowed: bool| {
        let answer = call(&gateway, tool, &arguments);
        assert_eq!(answer.contains("called with"), is_allowed, "{tool} {arguments}: {answer}");
    };
    check("s__write", json!({ "path": "/srv/a" }), true);
    check("s__write", json!({ "path": "/srv/../etc" }), false);
    check("s__write", json!({}), false);
    check("s__pay", json!({ "amount": 99 }), true);
    check("s__pay", json!({ "amount": 100 }), false);
    check("s__pay", json!({ "amount": "1" }), false);
    let (code, explained, _) = home.run(&[
        "--config",
        "config.toml",
        "--state-dir",
        "state",
        "explain",
        "s:pay",
        "--as",
        "local",
        "--args",
        r#"{"amount":5}"#,
    ]);
    assert_eq!(code, 0, "{explained}");
    assert!(explained.contains("a call is decided as `allow` by the rule at config.toml:"), "{explained}");
}

#[test]
fn variables_in_rules_are_expanded_except_in_conditions() {
    let rules = "[[rules]]\nwho = \"${CALLER}\"\ntools = \"s:${TOOL}\"\n\
                 args = { \"/path\" = { below = \"${FOLDER:-/srv}\" }, \"/kind\" = { one_of = [\"${TOOL}\"] } }\n\
                 when = 'args.text == \"${TOOL}\"'\ndo = \"deny\"\n";
    let home = home(rules);
    let explain = |args: Value| {
        let args = args.to_string();
        let words = [
            "--config",
            "config.toml",
            "--state-dir",
            "state",
            "explain",
            "s:write",
            "--as",
            "local",
            "--args",
        ];
        let mut command = home.toolyard(&words);
        let output = command.arg(args).env("CALLER", "local").env("TOOL", "write").output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let denied = explain(json!({ "path": "/srv/a", "kind": "write", "text": "${TOOL}" }));
    assert!(denied.contains("a call is decided as `deny` by the rule at config.toml:"), "{denied}");
    for other in [
        json!({ "path": "/etc/a", "kind": "write", "text": "${TOOL}" }),
        json!({ "path": "/srv/a", "kind": "${TOOL}", "text": "${TOOL}" }),
        json!({ "path": "/srv/a", "kind": "write", "text": "write" }),
    ] {
        let allowed = explain(other);
        assert!(!allowed.contains("decided as `deny`"), "{allowed}");
    }
}

#[test]
fn annotations_of_a_server_that_is_not_trusted_only_tighten() {
    let rules =
        "[policy]\ndefault = \"deny\"\n[[rules]]\nannotations = { read_only = true }\ndo = \"allow\"\n";
    assert_eq!(names(&start(&home(rules))), Vec::<String>::new());
    assert_eq!(names(&start(&home(&format!("trusted = true\n{rules}")))), ["s__read"]);
    let rules = "[[rules]]\nannotations = { destructive = true }\ndo = \"deny\"\n";
    assert_eq!(names(&start(&home(rules))), ["s__read"]);
}

#[test]
fn arguments_with_duplicate_keys_are_refused() {
    let home = home(
        "[[rules]]\ntools = \"s:pay\"\nargs = { \"/amount\" = { max = 10 } }\ndo = \"allow\"\n\
                     [[rules]]\ntools = \"s:pay\"\ndo = \"deny\"\n",
    );
    let gateway = start(&home);
    let session = http::open_session(&gateway.url);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__pay","arguments":{"amount":1000,"amount":1}}}"#;
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let answer = http::read(http::send_text(&gateway.url, &headers, body)).message().to_string();
    assert!(answer.contains("duplicate keys"), "{answer}");
    assert!(!home.path("calls").exists());
}

fn list(gateway: &Gateway, kind: &str, member: &str) -> Vec<String> {
    let method = format!("{kind}/list");
    let answer = http::read(http::modern(&gateway.url, &method, json!({}))).message();
    let entries = answer["result"][kind].as_array().unwrap_or_else(|| panic!("{answer}"));
    entries.iter().map(|entry| entry[member].as_str().unwrap().to_owned()).collect()
}

fn read(gateway: &Gateway, uri: &str) -> String {
    let params = json!({ "uri": uri, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    } });
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "resources/read"), ("mcp-name", uri)];
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params });
    http::post(&gateway.url, &headers, &message).message().to_string()
}

#[test]
fn prompts_and_resources_are_seen_used_and_explained_as_the_rules_say() {
    let home = home(
        "[[rules]]\nprompts = \"s:internal\"\ndo = \"hide\"\n\
         [[rules]]\nresources = [\"s:file:///srv/*\"]\ndo = \"allow\"\n\
         [[rules]]\nresources = [\"s:*\"]\ndo = \"deny\"\n",
    );
    let gateway = start(&home);
    assert_eq!(names(&gateway).len(), 4);
    assert_eq!(list(&gateway, "prompts", "name"), ["s__plain"]);
    let listed = list(&gateway, "resources", "uri");
    assert!(listed.len() == 1 && listed[0].ends_with("/srv/a"), "{listed:?}");
    assert!(read(&gateway, &listed[0]).contains("the text"), "{}", read(&gateway, &listed[0]));
    let denied = read(&gateway, &listed[0].replace("srv/a", "etc/b"));
    assert!(denied.contains("s:file:///etc/b is denied to local"), "{denied}");
    let refused = read(&gateway, &listed[0].replace("srv/a", "srv/../etc/b"));
    assert!(refused.contains("which rules cannot judge"), "{refused}");
    let explain = |arguments: &[&str]| {
        let flags = ["--config", "config.toml", "--state-dir", "state", "explain", "--as", "bob"];
        home.run(&[&flags, arguments].concat()).1
    };
    for (arguments, expected) in [
        (
            ["--prompt", "s:internal"],
            "bob does not see it; a request for it is decided as `hide` by the rule at",
        ),
        (
            ["--resource", "s:file:///srv/a"],
            "bob sees it; a request for it is decided as `allow` by the rule at",
        ),
        (
            ["--resource", "s:file:///etc/b"],
            "bob does not see it; a request for it is decided as `deny` by the rule at",
        ),
        (["--resource", "s:file:///srv/../x"], "rules cannot judge `.` or `..` in its path"),
    ] {
        let explained = explain(&arguments);
        assert!(explained.contains(expected), "{arguments:?}: {explained}");
    }
}

#[test]
fn a_user_with_no_permissions_can_still_ask_why() {
    let home = home("[policy]\ndefault = \"deny\"\n[[rules]]\ntools = \"s:pay\"\ndo = \"hide\"\n");
    let _gateway = start(&home);
    let flags = ["--config", "config.toml", "--state-dir", "state"];
    let explained = home.run(&[&flags[..], &["explain", "s:read", "--as", "local"]].concat()).1;
    assert!(explained.contains("a call is decided as `deny` by the default"), "{explained}");
    let listed = home.run(&[&flags[..], &["list"]].concat()).1;
    assert!(listed.contains("active"), "{listed}");
}

#[test]
fn decisions_of_rules_and_approvals_are_in_the_audit() {
    let home = home(
        "[audit]\n[[rules]]\ntools = \"s:write\"\ndo = \"deny\"\n[[rules]]\ntools = \"s:read\"\ndo = \"allow\"\n\
         [[rules]]\ntools = \"s:pay\"\ndo = \"approve\"\nby = \"operator\"\nwait = 0\n\
         [[rules]]\ntools = \"s:secret\"\ndo = \"hide\"\n",
    );
    let gateway = start(&home);
    call(&gateway, "s__secret", &json!({}));
    call(&gateway, "s__read", &json!({}));
    call(&gateway, "s__write", &json!({}));
    let waits = call(&gateway, "s__pay", &json!({ "amount": 1 }));
    let (_, rest) = waits.split_once("pending as ").unwrap();
    let id: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    let flags = ["--config", "config.toml", "--state-dir", "state"];
    assert_eq!(home.run(&[&flags[..], &["deny", &id]].concat()).0, 0);
    let audit = crate::gateway::eventually("the decision is recorded", || {
        let audit = home.run(&[&flags[..], &["audit", "--json"]].concat()).1;
        audit.contains("\"what\":\"decided\"").then_some(audit)
    });
    let records: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |what: &str, tool: &str| {
        let fits = |record: &&Value| record["what"] == what && record["tool"] == tool;
        records.iter().find(fits).unwrap_or_else(|| panic!("no {what} of {tool} in {audit}"))
    };
    let note = |record: &Value| record["notes"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(note(find("ended", "s:read")).starts_with("allow by config.toml:"), "{audit}");
    assert!(note(find("ended", "s:write")).starts_with("deny by config.toml:"), "{audit}");
    assert!(note(find("ended", "s:pay")).starts_with("approval required by config.toml:"), "{audit}");
    assert!(note(find("refused", "s__secret")).starts_with("hide by config.toml:"), "{audit}");
    let decided = find("decided", "s:pay");
    assert_eq!(
        (&decided["by"], &decided["approved"], &decided["principal"]),
        (&json!("operator"), &json!(false), &json!("local"))
    );
}
