//! What crosses a node together with a call: progress, cancel, questions, tasks, the trace and the principal. The
//! upstream is on one node, and the client calls another.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::http::{legacy, modern, open_session, post, read, send};
use super::testkit;
use super::world::{Setup, World, eventually};

/// A request of a modern client.
#[derive(Clone)]
struct Ask {
    method: &'static str,
    params: Value,
    capabilities: Value,
    meta: Value,
    token: Option<String>,
}

impl Ask {
    fn call(tool: &str) -> Self {
        let capabilities = json!({ "elicitation": { "form": {} } });
        let params = json!({ "name": tool, "arguments": {} });
        Self { method: "tools/call", params, capabilities, meta: json!({}), token: None }
    }

    /// About a task that the client has made.
    fn about_task(self, method: &'static str, task: &str) -> Self {
        Self { method, params: json!({ "taskId": task }), ..self }
    }

    fn send(&self, url: &str) -> TcpStream {
        let mut params = self.params.clone();
        params["_meta"] = self.meta.clone();
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        let name = params["name"].as_str().or_else(|| params["taskId"].as_str()).unwrap().to_owned();
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", self.method)];
        headers.push(("mcp-name", &name));
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        send(url, &headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": self.method, "params": params }))
    }

    fn answer(&self, url: &str) -> Value {
        read(self.send(url)).message()
    }
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

/// The scripted server of the testkit on the node `a`; `b` and `c` own nothing.
fn scripted(revision: &str, more: &str) -> World {
    let script = testkit::build("script");
    let upstream =
        format!("[upstreams.script]\ncommand = \"{}\"\nargs = [\"{revision}\"]\n{more}", script.display());
    let mut world = World::new();
    world.start_with("a", Setup { config: &upstream, ..Setup::default() });
    world.start_with("b", Setup { config: more, ..Setup::default() });
    world.start_with("c", Setup { config: more, ..Setup::default() });
    world
}

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

#[test]
fn progress_of_an_upstream_on_another_node_reaches_the_client() {
    for revision in REVISIONS {
        let world = scripted(revision, "");
        world.wait_for_tool("script__progress");
        let ask = Ask { meta: json!({ "progressToken": "mine" }), ..Ask::call("script__progress") };
        let reply = read(ask.send(&world.node("b").url));
        let events = reply.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let messages: Vec<Value> = events.filter_map(|data| serde_json::from_str(data).ok()).collect();
        let steps: Vec<&Value> = messages
            .iter()
            .filter(|message| message["params"]["progressToken"] == "mine")
            .map(|message| &message["params"]["progress"])
            .collect();
        assert_eq!(steps, [1, 2], "{revision}: {}", reply.body);
        assert_eq!(text(messages.last().unwrap()), "progressed", "{revision}");
    }
}

#[test]
fn a_cancel_reaches_an_upstream_on_another_node() {
    for revision in REVISIONS {
        let world = scripted(revision, "");
        world.wait_for_tool("script__slow");
        let url = &world.node("b").url;
        let cancelled = |count: &str| {
            eventually("the cancel at the upstream", || {
                (text(&Ask::call("script__cancels").answer(url)) == count).then_some(())
            });
        };
        // A modern client cancels by closing its stream, after the upstream has the call.
        let ask = Ask { meta: json!({ "progressToken": 1 }), ..Ask::call("script__slow") };
        let mut lines = BufReader::new(ask.send(url)).lines();
        assert!(lines.any(|line| line.unwrap().contains("notifications/progress")));
        drop(lines);
        cancelled("1");
        // A legacy client sends a notification.
        let session = open_session(url);
        let params = json!({ "name": "script__slow", "arguments": {}, "_meta": { "progressToken": 1 } });
        let mut lines = BufReader::new(legacy(url, &session, "tools/call", &params)).lines();
        assert!(lines.any(|line| line.unwrap().contains("notifications/progress")));
        let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
        let notice =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        assert_eq!(post(url, &headers, &notice).status, 202);
        cancelled("2");
    }
}

#[test]
fn a_question_of_an_upstream_on_another_node_is_answered_at_any_node() {
    for revision in REVISIONS {
        let world = scripted(revision, "");
        world.wait_for_tool("script__elicit");
        for node in ["b", "c", "a"] {
            check_question(&world, revision, node);
        }
    }
}

/// A client calls `b`, whose upstream is on `a`, and answers the question at this node.
fn check_question(world: &World, revision: &str, node: &str) {
    let ask = Ask::call("script__elicit");
    let asked = ask.answer(&world.node("b").url);
    assert_eq!(asked["result"]["resultType"], "input_required", "{revision}: {asked}");
    let questions = asked["result"]["inputRequests"].as_object().unwrap();
    let (key, question) = questions.iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    let mut again = ask.clone();
    again.params["requestState"] = asked["result"]["requestState"].clone();
    again.params["inputResponses"] = json!({ key: { "action": "accept", "content": { "name": "Ada" } } });
    assert_eq!(text(&again.answer(&world.node(node).url)), "Ada", "{revision} at {node}");
}

/// Rules of all nodes ask the user of the client about one tool.
const ASKED: &str = "[[rules]]\ntools = [\"script:cancels\"]\ndo = \"approve\"\nby = \"client\"\n";

#[test]
fn a_user_approves_a_call_at_any_node_and_the_approval_is_used_once() {
    for revision in REVISIONS {
        let world = scripted(revision, ASKED);
        world.wait_for_tool("script__cancels");
        for node in ["b", "c", "a"] {
            check_approval(&world, revision, node);
        }
    }
}

/// A client calls `b`, whose upstream is on `a`, and its user approves the call at this node.
fn check_approval(world: &World, revision: &str, node: &str) {
    let ask = Ask::call("script__cancels");
    let asked = ask.answer(&world.node("b").url);
    let question = &asked["result"]["inputRequests"]["approval"]["params"]["message"];
    assert!(question.as_str().is_some_and(|text| text.contains("script:cancels")), "{revision}: {asked}");
    let mut again = ask.clone();
    again.params["requestState"] = asked["result"]["requestState"].clone();
    again.params["inputResponses"] =
        json!({ "approval": { "action": "accept", "content": { "decision": "once" } } });
    assert_eq!(text(&again.answer(&world.node(node).url)), "0", "{revision} at {node}");
    for node in ["a", "b", "c"] {
        let refused = again.answer(&world.node(node).url).to_string();
        assert!(refused.contains("was used already"), "{revision}, again at {node}: {refused}");
    }
}

#[test]
fn the_trace_of_a_call_reaches_an_upstream_on_another_node() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &[], "");
    world.wait_for_tool("one__pid");
    let meta = json!({ "traceparent": format!("00-{TRACE}-b7ad6b7169203331-01") });
    let ask = Ask { meta, ..Ask::call("one__pid") };
    text(&ask.answer(&world.node("b").url));
    let meta = world.metas("one").pop().unwrap();
    assert_eq!(meta["traceparent"].as_str().unwrap().split('-').nth(1), Some(TRACE), "{meta}");
}

/// Tokens are made from this secret, each for one connection.
const AUTH: &str = "[auth]\nsecret = \"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"\n";

struct Tokens(u64);

impl Tokens {
    fn new() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - 1_000)
    }

    fn of(&mut self, client: &str) -> String {
        self.0 += 1;
        let (signed, secret) = (format!("{client}:{}", self.0), b"0123456789abcdef0123456789abcdef");
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let mac = ring::hmac::sign(&key, signed.as_bytes());
        format!("{signed}:{}", BASE64.encode(mac.as_ref()))
    }
}

#[test]
fn a_task_is_followed_at_every_node_by_its_principal_alone() {
    for revision in REVISIONS {
        let (world, mut tokens) = (scripted(revision, AUTH), Tokens::new());
        let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        let ask = Ask { capabilities, ..Ask::call("script__long_task") };
        let mut by = |client: &str, ask: &Ask, node: &str| {
            Ask { token: Some(tokens.of(client)), ..ask.clone() }.answer(&world.node(node).url)
        };
        let mut last = Value::Null;
        let task = eventually("a task through the node b", || {
            last = by("ann", &ask, "b");
            Some(last["result"]["taskId"].as_str()?.to_owned())
        });
        for node in ["a", "b", "c"] {
            let own = ask.clone().about_task("tasks/get", &task);
            let got = eventually("the upstream at each node", || {
                Some(by("ann", &own, node)).filter(|got| got["result"].is_object())
            });
            assert_eq!(got["result"]["status"], "working", "{revision}, ann at {node}: {got}");
            // A modern server keeps the tasks of its clients apart; for a legacy one, the gateway of its node does.
            if revision == "2025-11-25" {
                let got = by("bob", &own, node);
                assert_eq!(got["error"]["code"], -32602, "bob at {node}: {got}");
            }
        }
        by("ann", &ask.clone().about_task("tasks/cancel", &task), "c");
        let got = by("ann", &ask.clone().about_task("tasks/get", &task), "b");
        assert_eq!(got["result"]["status"], "cancelled", "{revision}: {got}");
    }
}

/// Both nodes count the calls that pass them, and have a profile without one of the tools.
const STEPS: &str = "[hooks.count]\non = [\"pre_tool_call\"]\ncommand = \"sh\"\nargs = [\"-c\", \"echo x >> hooked\"]\n\
    [profiles.small]\ndeny = [\"*:slow\"]\n";

#[test]
fn hooks_run_once_at_the_called_node_and_its_profile_applies() {
    let world = scripted("2025-11-25", STEPS);
    world.wait_for_tool("script__cancels");
    for _ in 0..3 {
        text(&Ask::call("script__cancels").answer(&world.node("b").url));
    }
    let hooked = |node: &str| {
        let lines = std::fs::read_to_string(world.path(node).join("hooked")).unwrap_or_default();
        lines.lines().count()
    };
    assert_eq!((hooked("a"), hooked("b"), hooked("c")), (0, 3, 0));
    let profile = format!("{}/mcp/p/small", world.node("b").url);
    let tools = read(modern(&profile, "tools/list", json!({}))).tool_names();
    assert!(tools.contains(&"script__cancels".to_owned()), "{tools:?}");
    assert!(!tools.contains(&"script__slow".to_owned()), "{tools:?}");
    let refused = Ask::call("script__slow").answer(&profile);
    assert!(refused["error"].is_object() || refused["result"]["isError"] == true, "{refused}");
}

#[test]
fn a_time_limit_of_the_called_node_ends_a_call_at_the_owner() {
    for revision in REVISIONS {
        let world = scripted(revision, "");
        world.wait_for_tool("script__slow");
        let url = &world.node("b").url;
        let mut ask = Ask::call("script__slow");
        ask.meta = json!({ "dev.toolyard/timeoutMs": 500 });
        let answer = ask.answer(url);
        assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{answer}");
        // It was ended at the upstream, too.
        eventually("the cancel at the upstream", || {
            (text(&Ask::call("script__cancels").answer(url)) == "1").then_some(())
        });
    }
}

#[test]
fn clients_of_the_python_sdk_use_a_server_of_it_on_another_node() {
    let python = std::env::var("TOOLYARD_PEERS_PYTHON").expect("`cargo xtask cluster` names the Python SDK");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let server = tests.join("support/server.py");
    let upstream =
        format!("[upstreams.sdk]\ncommand = \"{python}\"\nargs = [\"{}\", \"stdio\"]\n", server.display());
    let mut world = World::new();
    world.start_with("a", Setup { config: &upstream, ..Setup::default() });
    world.start("b", &[], "");
    world.wait_for_tool("sdk__greet");
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let calls = json!([
        call("sdk__echo", json!({ "text": "hi" })),
        call("sdk__count", json!({})),
        call("sdk__greet", json!({})),
    ]);
    let stops = json!([{ "url": format!("{}/mcp", world.node("b").url), "calls": calls }]).to_string();
    for mode in ["legacy", "auto"] {
        let mut client = Command::new(&python);
        let output = client.arg(tests.join("peers/client.py")).args([mode, &stops]).output().unwrap();
        assert!(output.status.success(), "{mode}: {}", String::from_utf8_lossy(&output.stderr));
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(seen["calls"][0]["text"], "Python: hi", "{mode}: {seen}");
        assert_eq!(seen["calls"][1]["progress"], json!([1.0, 2.0, 3.0]), "{mode}: {seen}");
        assert_eq!(seen["calls"][2]["text"], "Hello, Ada!", "{mode}: {seen}");
        assert_eq!(seen["calls"][2]["asked"], json!(["elicitation/create"]), "{mode}: {seen}");
    }
}
