//! Calls that need approval, by the user of the client and by an operator, for clients of both eras.

use std::io::{BufRead, BufReader, Read};

use serde_json::{Value, json};

use crate::gateway::{Gateway, Home};
use crate::http;
use crate::rules::{home, start};

fn rule(more: &str) -> String {
    format!("[[rules]]\ntools = \"s:pay\"\ndo = \"approve\"\n{more}")
}

/// How often the server was called.
fn calls(home: &Home) -> usize {
    std::fs::read_to_string(home.path("calls")).map_or(0, |text| text.lines().count())
}

/// Sends a call as a modern client that can ask its user.
fn modern(gateway: &Gateway, amount: u64, more: &Value) -> Value {
    let mut params = json!({ "name": "s__pay", "arguments": { "amount": amount }, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    } });
    for (key, value) in more.as_object().into_iter().flatten() {
        params[key] = value.clone();
    }
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "s__pay")];
    http::post(
        &gateway.url,
        &headers,
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }),
    )
    .message()
}

/// What a client sends back that was asked by `asked`.
fn answer(asked: &Value, content: &Value) -> Value {
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let keys = result["inputRequests"].as_object().unwrap().keys();
    let responses: serde_json::Map<String, Value> = keys.map(|key| (key.clone(), content.clone())).collect();
    json!({ "requestState": result["requestState"], "inputResponses": responses })
}

fn accept() -> Value {
    json!({ "action": "accept", "content": { "decision": "once" } })
}

#[test]
fn a_modern_client_approves_a_call_once() {
    let home = home(&rule(""));
    let gateway = start(&home);
    let asked = modern(&gateway, 5, &json!({}));
    let question = &asked["result"]["inputRequests"]["approval"]["params"]["message"];
    assert_eq!(*question, "local wants to call s:pay with these arguments: {\"amount\":5}");
    assert_eq!(calls(&home), 0);
    let yes = answer(&asked, &accept());
    let done = modern(&gateway, 5, &yes).to_string();
    assert!(done.contains("called with"), "{done}");
    assert!(
        !done.contains("inputResponses") && !done.contains("requestState"),
        "the server gets nothing of it: {done}"
    );
    let replayed = modern(&gateway, 5, &yes).to_string();
    assert!(replayed.contains("was used already"), "{replayed}");
    assert_eq!(modern(&gateway, 5, &json!({}))["result"]["resultType"], "input_required");
    assert_eq!(calls(&home), 1);
}

#[test]
fn a_modern_client_declines_or_changes_a_call() {
    let home = home(&rule(""));
    let gateway = start(&home);
    let asked = modern(&gateway, 5, &json!({}));
    for no in [json!({ "action": "decline" }), json!({ "action": "cancel" }), json!({ "action": "accept" })] {
        let asked = modern(&gateway, 5, &json!({}));
        let declined = modern(&gateway, 5, &answer(&asked, &no)).to_string();
        assert!(declined.contains("was not approved"), "{declined}");
    }
    let changed = modern(&gateway, 5_000, &answer(&asked, &accept()));
    assert_eq!(
        changed["result"]["resultType"], "input_required",
        "other arguments are asked about: {changed}"
    );
    assert_eq!(calls(&home), 0);
}

#[test]
fn an_answer_of_a_modern_client_holds_after_a_restart() {
    let home = home(&rule(""));
    let gateway = start(&home);
    let asked = modern(&gateway, 5, &json!({}));
    drop(gateway);
    let gateway = start(&home);
    let done = modern(&gateway, 5, &answer(&asked, &accept())).to_string();
    assert!(done.contains("called with"), "{done}");
    drop(gateway);
    let replayed = modern(&start(&home), 5, &answer(&asked, &accept())).to_string();
    assert!(replayed.contains("was used already"), "{replayed}");
    assert_eq!(calls(&home), 1);
}

#[test]
fn a_client_that_cannot_ask_leaves_the_call_to_an_operator() {
    let home = home(&rule(""));
    let gateway = start(&home);
    let refused = crate::rules::call(&gateway, "s__pay", &json!({ "amount": 5 }));
    let id = pending(&refused);
    approve(&home, "approve", &id);
    assert!(crate::rules::call(&gateway, "s__pay", &json!({ "amount": 5 })).contains("called with"));
    assert_eq!(calls(&home), 1);
}

/// The id in the error of a call that waits.
fn pending(error: &str) -> String {
    let (_, rest) = error.split_once("pending as ").unwrap_or_else(|| panic!("it does not wait: {error}"));
    rest.chars().take_while(char::is_ascii_hexdigit).collect()
}

fn approve(home: &Home, command: &str, id: &str) {
    let (code, stdout, stderr) = home.run(&["--config", "config.toml", "--state-dir", "state", command, id]);
    assert_eq!(code, 0, "{stdout}{stderr}");
}

#[test]
fn an_operator_approves_calls_of_both_eras() {
    for is_modern in [true, false] {
        let home = home(&rule("by = \"operator\"\nwait = 0\n"));
        let mut gateway = start(&home);
        let call = |gateway: &Gateway, amount: u64| {
            if is_modern {
                return modern(gateway, amount, &json!({})).to_string();
            }
            let session = http::open_session(&gateway.url);
            let params = json!({ "name": "s__pay", "arguments": { "amount": amount } });
            http::read(http::legacy(&gateway.url, &session, "tools/call", &params)).message().to_string()
        };
        let id = pending(&call(&gateway, 5));
        assert_eq!(pending(&call(&gateway, 5)), id, "an equal call waits as the same");
        let waiting = home.run(&["--config", "config.toml", "--state-dir", "state", "approve"]).1;
        assert!(waiting.contains(&id) && waiting.contains(r#"arguments: {"amount":5}"#), "{waiting}");
        drop(gateway);
        gateway = start(&home);
        approve(&home, "approve", &id);
        drop(gateway);
        gateway = start(&home);
        assert_ne!(pending(&call(&gateway, 6)), id, "other arguments are not approved");
        assert!(call(&gateway, 5).contains("called with"));
        let id = pending(&call(&gateway, 5));
        approve(&home, "deny", &id);
        assert_ne!(pending(&call(&gateway, 5)), id, "a denied call has to be asked for again");
        assert_eq!(calls(&home), 1);
    }
}

#[test]
fn a_call_that_waits_goes_on_when_an_operator_approves_it() {
    let home = home(&rule("by = \"operator\"\nwait = \"5m\"\n"));
    let gateway = start(&home);
    for (command, expected) in [("approve", "called with"), ("deny", "was denied by an operator")] {
        let answer = std::thread::scope(|scope| {
            let calling = scope.spawn(|| modern(&gateway, 5, &json!({})).to_string());
            let id = crate::gateway::eventually("the call waits", || {
                let waiting =
                    home.run(&["--config", "config.toml", "--state-dir", "state", "approve", "--json"]).1;
                let waiting: Value = serde_json::from_str(&waiting).ok()?;
                waiting["calls"][0]["id"].as_str().map(str::to_owned)
            });
            approve(&home, command, &id);
            calling.join().unwrap()
        });
        assert!(answer.contains(expected), "{answer}");
    }
    assert_eq!(calls(&home), 1);
}

/// Opens the session of a legacy client that can ask its user.
fn open_legacy(gateway: &Gateway) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "t", "version": "1" } });
    let opened = http::post(
        &gateway.url,
        &[],
        &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
    );
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    http::post(&gateway.url, &headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    session
}

/// A legacy client that answers every question on its stream, and the number of questions.
fn legacy(gateway: &Gateway, answers: &[Value]) -> (String, usize) {
    legacy_call(gateway, &open_legacy(gateway), answers)
}

/// The same in a session that is open.
fn legacy_call(gateway: &Gateway, session: &str, answers: &[Value]) -> (String, usize) {
    let headers = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
    let params = json!({ "name": "s__pay", "arguments": { "amount": 5 } });
    let mut stream = BufReader::new(http::legacy(&gateway.url, session, "tools/call", &params));
    let (mut text, mut asked) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap() == 0 {
            return (text, asked);
        }
        if let Some(question) =
            line.strip_prefix("data: ").and_then(|text| serde_json::from_str::<Value>(text).ok())
            && question["method"] == "elicitation/create"
        {
            let result = answers.get(asked).cloned().unwrap_or_else(|| json!({ "action": "cancel" }));
            asked += 1;
            let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": result });
            assert_eq!(http::post(&gateway.url, &headers, &answer).status, 202);
        }
        text.push_str(&line);
        if line.contains("called with") || line.contains("isError") {
            let mut rest = String::new();
            let _ = stream.read_to_string(&mut rest);
            return (text + &rest, asked);
        }
    }
}

#[test]
fn a_legacy_client_approves_or_declines_within_the_call() {
    let home = home(&rule(""));
    let gateway = start(&home);
    let (done, asked) = legacy(&gateway, &[accept()]);
    assert!(done.contains("called with") && asked == 1, "{done}");
    let (declined, asked) = legacy(&gateway, &[json!({ "action": "decline" })]);
    assert!(declined.contains("was not approved") && asked == 1, "{declined}");
    assert_eq!(calls(&home), 1);
}

#[test]
fn a_grant_for_a_legacy_session_holds_after_a_restart_in_that_session_alone() {
    let home = home(&rule("remember = \"session\"\n"));
    let gateway = start(&home);
    let (session, other) = (open_legacy(&gateway), open_legacy(&gateway));
    let for_session = json!({ "action": "accept", "content": { "decision": "session" } });
    let (done, asked) = legacy_call(&gateway, &session, &[for_session]);
    assert!(done.contains("called with") && asked == 1, "{done}");
    drop(gateway);
    let gateway = start(&home);
    let (done, asked) = legacy_call(&gateway, &session, &[]);
    assert!(done.contains("called with") && asked == 0, "the session and its grant are kept: {done}");
    let (refused, asked) = legacy_call(&gateway, &other, &[json!({ "action": "decline" })]);
    assert!(refused.contains("was not approved") && asked == 1, "{refused}");
    assert_eq!(calls(&home), 2);
}

/// A server that asks two questions of its own in each call.
const ASKING: &str = r#"
import json, sys
def send(m): print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
def ask(n):
    send({"id": "q%d" % n, "method": "elicitation/create", "params": {"message": "question %d" % n, "requestedSchema": {"type": "object", "properties": {}}}})
    return json.loads(sys.stdin.readline())["result"]["action"]
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "tools/call":
        open("calls", "a").write("call\n")
        send({"id": m["id"], "result": {"content": [{"type": "text", "text": "called with " + ask(1) + ask(2)}]}})
        continue
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]},
    }.get(m["method"])
    send({"id": m["id"], "result": result} if result is not None else {"id": m["id"], "error": {"code": -32601, "message": "no"}})
"#;

#[test]
fn long_arguments_are_shown_whole_before_an_operator_approves_them() {
    let home = home(&rule("by = \"operator\"\nwait = 0\n"));
    let gateway = start(&home);
    let text = format!("{}the end", "x".repeat(20_000));
    let arguments = json!({ "amount": 5, "text": text });
    let id = pending(&crate::rules::call(&gateway, "s__pay", &arguments));
    let run = |more: &[&str]| {
        let (code, stdout, stderr) =
            home.run(&[&["--config", "config.toml", "--state-dir", "state", "approve"], more].concat());
        assert_eq!(code, 0, "{stdout}{stderr}");
        stdout
    };
    let listed = run(&[]);
    assert!(listed.contains("arguments, cut: {\"amount\":5") && !listed.contains("the end"), "{listed}");
    assert!(listed.contains(&format!("`toolyard approve {id} --show` shows all of them")), "{listed}");
    let shown = run(&[&id, "--show"]);
    assert!(shown.contains("xxthe end\"}") && shown.contains("digest: "), "{shown}");
    let whole: Value = serde_json::from_str(&run(&[&id, "--show", "--json"])).unwrap();
    assert_eq!(whole["arguments"], arguments);
    assert!(listed.contains(whole["digest"].as_str().unwrap()), "{listed}");
    assert_eq!(calls(&home), 0, "it was shown and not approved");
    approve(&home, "approve", &id);
    assert!(crate::rules::call(&gateway, "s__pay", &arguments).contains("called with"));
}

#[test]
fn an_operator_approves_a_call_once_however_often_its_server_asks_afterwards() {
    let home = home(&rule("by = \"operator\"\nwait = 0\n"));
    home.write("server.py", ASKING);
    let gateway = start(&home);
    let (refused, asked) = legacy(&gateway, &[]);
    assert_eq!(asked, 0, "{refused}");
    approve(&home, "approve", &pending(&refused));
    let (done, asked) = legacy(&gateway, &[accept(), accept()]);
    assert!(done.contains("called with acceptaccept") && asked == 2, "{asked}: {done}");
    approve(&home, "approve", &pending(&modern(&gateway, 5, &json!({})).to_string()));
    let mut answered = modern(&gateway, 5, &json!({}));
    for round in 0..2 {
        assert_eq!(answered["result"]["resultType"], "input_required", "round {round}: {answered}");
        answered = modern(&gateway, 5, &answer(&answered, &accept()));
    }
    assert!(answered.to_string().contains("called with acceptaccept"), "{answered}");
    assert_eq!(calls(&home), 2);
}

#[test]
fn a_call_is_approved_once_however_often_its_server_asks_afterwards() {
    let home = home(&rule(""));
    home.write("server.py", ASKING);
    let gateway = start(&home);
    let (done, asked) = legacy(&gateway, &[accept(), accept(), accept()]);
    assert!(done.contains("called with acceptaccept") && asked == 3, "{asked}: {done}");
    let mut answered = modern(&gateway, 5, &json!({}));
    for round in 0..3 {
        assert_eq!(answered["result"]["resultType"], "input_required", "round {round}: {answered}");
        answered = modern(&gateway, 5, &answer(&answered, &accept()));
    }
    assert!(answered.to_string().contains("called with acceptaccept"), "{answered}");
    assert_eq!(calls(&home), 2);
}

#[test]
fn an_approval_is_in_the_audit_with_who_gave_it_and_the_digest_of_the_arguments() {
    let mut digests = Vec::new();
    for (by, more) in [("operator", "by = \"operator\"\nwait = 0\n"), ("client", "by = \"client\"\n")] {
        let home = home(&format!("[audit]\n{}", rule(more)));
        let gateway = start(&home);
        let done = if by == "operator" {
            let arguments = json!({ "amount": 5 });
            approve(&home, "approve", &pending(&crate::rules::call(&gateway, "s__pay", &arguments)));
            crate::rules::call(&gateway, "s__pay", &arguments)
        } else {
            let asked = modern(&gateway, 5, &json!({}));
            modern(&gateway, 5, &answer(&asked, &accept())).to_string()
        };
        assert!(done.contains("called with"), "{done}");
        let decided = crate::gateway::eventually("the decision is recorded", || {
            let flags = ["--config", "config.toml", "--state-dir", "state", "audit", "--json"];
            let audit = home.run(&flags).1;
            let mut records = audit.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            records.find(|record| record["what"] == "decided")
        });
        let fields = ["tool", "by", "approved", "principal"].map(|key| decided[key].clone());
        assert_eq!(fields, [json!("s:pay"), json!(by), json!(true), json!("local")], "{decided}");
        digests.push(decided["argumentsDigest"].as_str().unwrap().to_owned());
    }
    assert_eq!(digests[0], digests[1], "both are about the same arguments");
}
