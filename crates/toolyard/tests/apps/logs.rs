//! What the log contains about calls, and what it never contains.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use crate::support::{App, Door, Yard, eventually};

/// A server whose only tool answers with an error of the protocol.
const BROKEN: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$1" "$2"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer "$id" '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer "$id" '"result":{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}' ;;
    *'"id"'*) answer "$id" '"error":{"code":-32050,"message":"s3cret: not today"}' ;;
  esac
done
"#;

/// A gateway that logs as JSON, with a server that breaks the rules.
fn yard(more: &str) -> Yard {
    let script = serde_json::to_string(BROKEN).unwrap();
    Yard::start(&format!(
        "\n[log]\nformat = \"json\"\n\n[upstreams.broken]\ncommand = \"sh\"\nargs = [\"-c\", {script}]\n{more}"
    ))
}

/// Everything that was logged so far; every line of it is an object.
fn lines(yard: &Yard) -> Vec<Value> {
    let log = yard.stderr();
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect()
}

fn calls(yard: &Yard) -> Vec<Value> {
    lines(yard).into_iter().filter(|line| line["target"] == "calls").collect()
}

/// Waits for the record of the next call, after so many.
fn record(yard: &Yard, before: usize) -> Value {
    eventually("the record of a call", || calls(yard).get(before).cloned())
}

#[test]
fn one_call_is_one_record_with_all_fields_however_it_ends() {
    let yard = yard("\n[tools.\"Busy:hang\"]\ntimeout = \"1s\"\n");
    let mut app = App::register(&yard, Door::Tcp, "Busy", &["go", "hang"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Busy__go", "Busy__hang", "broken__go"]);
    let arguments = json!({ "password": "s3cret" });
    let mut seen = 0;
    let mut check = |yard: &Yard, tool: &str, status: &str, more: &[(&str, Value)]| {
        let record = record(yard, seen);
        seen += 1;
        assert_eq!((&record["tool"], &record["status"]), (&json!(tool), &json!(status)), "{record}");
        assert!(record["duration_ms"].is_f64() && record["timestamp"].is_string(), "{record}");
        assert_eq!((&record["principal"], &record["method"]), (&json!("local"), &json!("tools/call")));
        assert!(record["session"].as_str().unwrap().starts_with("connection-"), "{record}");
        for (key, value) in more {
            assert_eq!(&record[key], value, "{key} of {record}");
        }
    };

    let first = agent.send_call("Busy__go", &arguments);
    let call = app.invocation();
    app.answer(&call, &json!("s3cret"));
    agent.answer(first);
    check(&yard, "Busy:go", "ok", &[("upstream", json!("Busy")), ("kind", json!("app"))]);

    let failed = agent.send_call("Busy__go", &arguments);
    let call = app.invocation();
    app.respond(&call, &json!({ "success": false, "data": null, "error": "s3cret" }));
    assert_eq!(agent.answer(failed)["result"]["isError"], true);
    check(&yard, "Busy:go", "tool-error", &[]);

    let refused = agent.send_call("broken__go", &arguments);
    assert_eq!(agent.answer(refused)["error"]["code"], -32050);
    let server = [("upstream", json!("broken")), ("kind", json!("server")), ("code", json!(-32050))];
    check(&yard, "broken:go", "protocol-error", &server);

    agent.send_call("Busy__hang", &arguments);
    check(&yard, "Busy:hang", "timeout", &[("upstream", json!("Busy"))]);
    app.invocation();

    let hasty = agent.send_call("Busy__go", &arguments);
    app.invocation();
    let cancel = json!({ "requestId": hasty });
    agent.write(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel }));
    check(&yard, "Busy:go", "cancelled", &[("upstream", json!("Busy"))]);

    let unknown = agent.send_call("Busy__nothing", &arguments);
    assert!(agent.answer(unknown)["error"].is_object());
    check(
        &yard,
        "Busy__nothing",
        "refused",
        &[("error", json!("invalid-params")), ("upstream", Value::Null)],
    );

    agent.send_call("Busy__go", &arguments);
    app.invocation();
    drop(app);
    check(&yard, "Busy:go", "failed", &[("error", json!("lost"))]);

    assert_eq!(calls(&yard).len(), seen, "nothing is logged twice");
    assert!(!yard.stderr().contains("s3cret"), "{}", yard.stderr());
}

#[test]
fn connections_rejections_and_messages_of_the_program_are_json_too() {
    let secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let yard = yard(&format!("\n[auth]\nsecret = \"{secret}\"\n"));
    assert_eq!(yard.http(None).list(), 401);
    assert_eq!(yard.http(Some("s3cret")).list(), 401);
    let token = yard.token("web");
    assert_eq!(yard.http(Some(&token)).list(), 200);
    let mut app = App::connect(&yard, Door::Tcp);
    app.send(&json!({ "type": "register", "appName": "Busy", "authToken": "s3cret", "tools": [] }));
    assert_eq!(app.next()["type"], "refused");
    let has = |target: &str, part: &str| {
        lines(&yard).iter().any(|line| {
            line["target"] == target
                && line["message"].as_str().unwrap().contains(part)
                && line["level"].is_string()
        })
    };
    eventually("every word", || {
        let all = has("program", "listening on http://")
            && has("auth", "rejected a request without a token")
            && has("auth", "rejected a token")
            && has("auth", "rejected an app")
            && has("clients", "connected");
        all.then_some(())
    });
    let signature = token.rsplit(':').next().unwrap();
    assert!(!yard.stderr().contains("s3cret") && !yard.stderr().contains(signature), "{}", yard.stderr());
}

#[test]
fn the_text_format_logs_calls_only_on_request() {
    let yard = Yard::start("");
    let app = App::register(&yard, Door::Tcp, "Busy", &["go"]).echo();
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Busy__go"]);
    agent.call("Busy__go", &json!({}));
    let log = yard.stderr();
    assert!(log.contains("listening on http://") && !log.contains("duration_ms"), "{log}");
    drop((agent, yard));
    app.join().unwrap();
}

fn metrics(yard: &Yard) -> String {
    let mut http = yard.http(None).stream;
    http.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    http.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_count_as_many_calls_as_the_log_records() {
    let yard = yard("");
    let mut app = App::register(&yard, Door::Tcp, "Busy", &["go"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Busy__go", "broken__go"]);
    for success in [true, true, true, false] {
        let id = agent.send_call("Busy__go", &json!({}));
        let call = app.invocation();
        app.respond(&call, &json!({ "success": success, "data": "x", "error": (!success).then_some("no") }));
        agent.answer(id);
    }
    let refused = agent.send_call("broken__go", &json!({}));
    agent.answer(refused);
    record(&yard, 4);
    let metrics = metrics(&yard);
    for upstream in ["Busy", "broken"] {
        let is_its_count = |line: &&str| {
            line.starts_with("mcp_server_operation_duration_seconds_count")
                && line.contains("mcp_method_name=\"tools/call\"")
                && line.contains(&format!("upstream=\"{upstream}\""))
        };
        let counted = metrics.lines().filter(is_its_count).map(|line| line.rsplit_once(' ').unwrap().1);
        let counted: u64 = counted.map(|count| count.parse::<u64>().unwrap()).sum();
        let logged = calls(&yard).iter().filter(|call| call["upstream"] == upstream).count() as u64;
        assert_eq!((counted, logged > 0), (logged, true), "{upstream}: {metrics}");
    }
}

#[test]
fn a_failing_call_of_a_pack_is_logged_with_its_tool() {
    let yard = yard("");
    let mut agent = yard.agent();
    agent.wait_for_tools(&["broken__go"]);
    let wrong = agent.send_call("dev__time_now", &json!({ "offset": "never" }));
    assert_eq!(agent.answer(wrong)["result"]["isError"], true);
    let failed = eventually("the record of the failure", || {
        lines(&yard).into_iter().find(|line| line["target"] == "tools" && line["message"] == "failed")
    });
    assert_eq!(failed["name"], "time_now", "{failed}");
}

#[test]
fn the_name_of_an_app_forges_no_line_of_the_text_log() {
    let yard = Yard::start("");
    let mut stream = std::net::TcpStream::connect(yard.apps_tcp()).unwrap();
    let register = json!({ "type": "register", "appName": "x\nERROR forged\u{1b}[2J\rspoofed", "tools": [] });
    stream.write_all(format!("{register}\n").as_bytes()).unwrap();
    let log = eventually("a line about the app", || Some(yard.stderr()).filter(|log| log.contains("forged")));
    assert!(log.lines().all(|line| !line.trim_start().starts_with("ERROR forged")), "{log}");
    assert!(!log.contains(['\u{1b}', '\r']), "{log:?}");
}
