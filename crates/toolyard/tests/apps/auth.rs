//! Authentication of apps and clients: who needs a token, and which tokens are accepted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use toolyard_proto::token::Secret;

use crate::support::{Agent, App, Door, Yard, tool};

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const OLD_SECRET: &str = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

fn yard() -> Yard {
    Yard::start(&format!("\n[auth]\nsecret = \"{SECRET}\"\nprevious_secret = \"{OLD_SECRET}\"\n"))
}

fn try_register(yard: &Yard, name: &str, token: Option<&str>) -> (App, Value) {
    let mut app = App::connect(yard, Door::Tcp);
    app.send(&json!({ "type": "register", "appName": name, "authToken": token, "tools": [tool("go")] }));
    let answer = app.next();
    (app, answer)
}

#[test]
fn apps_without_a_good_token_are_refused_and_the_log_holds_no_secret() {
    let yard = yard();
    let good = yard.token("MyApp");
    let (app, answer) = try_register(&yard, "MyApp", Some(&good));
    assert_eq!(answer["type"], "registered", "{answer}");
    let forged = good.replace("MyApp", "Forged");
    for (token, reason) in [
        (None, "a token is required"),
        (Some("nonsense"), "does not have the form"),
        (Some(forged.as_str()), "another secret"),
        (Some(good.as_str()), "used before"),
    ] {
        let (_, answer) = try_register(&yard, "Other", token);
        assert_eq!(answer["type"], "refused", "{answer}");
        assert!(answer["reason"].as_str().unwrap().contains(reason), "{answer}");
    }
    let log = yard.stderr();
    assert!(log.contains("rejected an app"), "{log}");
    let signature = good.rsplit(':').next().unwrap();
    assert!(!log.contains(signature) && !log.contains(SECRET), "{log}");
    // The same client gets its id back; another does not.
    let (_, refused) = try_register(&yard, "MyApp", Some(&yard.token("Else")));
    assert_eq!(refused["type"], "refused", "{refused}");
    let (_again, answer) = try_register(&yard, "MyApp", Some(&yard.token("MyApp")));
    assert_eq!(answer["type"], "registered", "{answer}");
    assert!(app.is_closed());
}

#[test]
fn a_token_registers_only_the_app_that_it_names_unless_the_config_allows_others() {
    let yard = yard();
    let (_, refused) = try_register(&yard, "Painter", Some(&yard.token("Clock")));
    assert_eq!(refused["type"], "refused", "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("for the client id `Clock`"), "{refused}");
    let guidance = refused["guidance"].as_str().unwrap();
    assert!(guidance.contains("`Painter`") && guidance.contains("any_client_id"), "{guidance}");
    let (_app, registered) = try_register(&yard, "Painter", Some(&yard.token("painter")));
    assert_eq!(registered["type"], "registered", "{registered}");
    let lenient = Yard::start(&format!("any_client_id = true\n\n[auth]\nsecret = \"{SECRET}\"\n"));
    let (_app, registered) = try_register(&lenient, "Painter", Some(&lenient.token("Clock")));
    assert_eq!(registered["type"], "registered", "{registered}");
}

#[test]
fn agents_bring_their_token_in_the_opening_line_or_the_handshake() {
    let yard = yard();
    let ask = |lines: &[Value]| {
        let mut agent = Agent::connect(yard.tcp());
        for line in lines {
            agent.write(line);
        }
        agent.answer_or_refusal()
    };
    let list = |id: u64| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} } } })
    };
    let refused = ask(&[list(1)]);
    assert!(refused["error"]["message"].as_str().unwrap().contains("token is required"), "{refused}");
    let token = yard.token("agent");
    let opened = ask(&[json!({ "toolyard": 1, "token": token }), list(1)]);
    assert!(opened["result"]["tools"].is_array(), "{opened}");
    let replayed = ask(&[json!({ "toolyard": 1, "token": token }), list(1)]);
    assert!(replayed["error"]["message"].as_str().unwrap().contains("not accepted"), "{replayed}");
    let info = json!({ "name": "t", "version": "1" });
    let shake = |token: &str| {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info, "authToken": token });
        ask(&[json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })])
    };
    assert_eq!(shake(&yard.token("agent"))["result"]["protocolVersion"], "2025-11-25");
    assert!(shake("nonsense")["error"].is_object());
}

#[test]
fn over_http_a_token_is_valid_for_the_connection_that_it_opened() {
    let yard = yard();
    let token = yard.token("web");
    let mut first = yard.http(Some(&token));
    assert_eq!(first.list(), 200);
    assert_eq!(first.list(), 200);
    assert_eq!(yard.http(Some(&token)).list(), 401);
    assert_eq!(yard.http(None).list(), 401);
    assert_eq!(yard.http(Some(&yard.token("web"))).list(), 200);
    // Commands of the program know the secret.
    let (code, output) = yard.run(&["tools", "list"]);
    assert_eq!(code, 0, "{output}");
}

/// A token as any program makes it, dated this many seconds from now.
fn minted(secret: &str, client: &str, ahead: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    Secret::parse(secret).unwrap().mint(client, now.checked_add_signed(ahead).unwrap())
}

#[test]
fn both_secrets_are_accepted_clocks_may_differ_and_tokens_use_the_last_timestamp_plus_one() {
    let yard = Yard::start(&format!(
        "any_client_id = true\n\n[auth]\nsecret = \"{SECRET}\"\nprevious_secret = \"{OLD_SECRET}\"\n"
    ));
    for (number, (token, expected)) in [
        (minted(SECRET, "New", 0), "registered"),
        (minted(OLD_SECRET, "Old", 0), "registered"),
        (minted(SECRET, "New", 1), "registered"),
        (minted(SECRET, "Ahead", 60), "registered"),
        (minted(SECRET, "Behind", -29 * 60), "registered"),
        (minted(SECRET, "Ahead", 10 * 60), "refused"),
        (minted(SECRET, "Behind", -40 * 60), "refused"),
        (minted("YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=", "Else", 0), "refused"),
    ]
    .into_iter()
    .enumerate()
    {
        let (_app, answer) = try_register(&yard, &format!("App{number}"), Some(&token));
        assert_eq!(answer["type"], expected, "{number}: {answer}");
        assert!(
            expected != "refused" || answer["guidance"].as_str().unwrap().contains("authToken"),
            "{answer}"
        );
    }
    assert_eq!(yard.http(Some(&minted(OLD_SECRET, "web", 0))).list(), 200);
    assert_eq!(yard.http(Some(&minted(OLD_SECRET, "web", -40 * 60))).list(), 401);
}

#[test]
fn stdio_brings_the_token_of_its_environment() {
    let yard = yard();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "yard__status",
        "arguments": {}, "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} } } });
    let principal = || {
        let (_, report) = yard.run(&["doctor", "--json"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        let calls = report["report"]["calls"].as_array().unwrap().iter();
        calls.into_iter().find(|call| call["tool"] == "yard:status").map(|call| call["principal"].clone())
    };
    let (stdout, _) = yard.stdio(None, &call);
    assert!(stdout.contains("uptimeSeconds"), "it makes one itself: {stdout}");
    let own = principal().unwrap_or_default().to_string();
    assert!(own.contains("client:toolyard-stdio-"), "{own}");
    let (stdout, _) = yard.stdio(Some(&minted(SECRET, "shim", 0)), &call);
    assert!(stdout.contains("uptimeSeconds"), "{stdout}");
    assert_eq!(principal(), Some(json!("client:shim")));
    let bad = minted(SECRET, "shim", -40 * 60);
    let (stdout, stderr) = yard.stdio(Some(&bad), &call);
    assert!(stdout.contains("the token is not accepted here"), "{stdout} {stderr}");
    assert!(!stderr.contains(&bad) && !yard.stderr().contains(bad.rsplit(':').next().unwrap()), "{stderr}");
}

/// A server that sends a notification after its answer, when no call is under way any more.
const TALKER: &str = r#"
say() { printf '{"jsonrpc":"2.0",%s}\n' "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) say '"id":'"$id"',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) say '"id":'"$id"',"result":{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) say '"id":'"$id"',"result":{"content":[]}'; sleep 0.2; say '"method":"notifications/message","params":{"level":"error","data":"about your call"}' ;;
    *'"id"'*) say '"id":'"$id"',"result":{}' ;;
  esac
done
"#;

#[test]
fn notifications_of_a_shared_server_outside_of_calls_reach_no_other_principal() {
    let script = serde_json::to_string(TALKER).unwrap();
    let yard = Yard::start(&format!(
        "\n[auth]\nsecret = \"{SECRET}\"\n\n[upstreams.talker]\ncommand = \"sh\"\nargs = [\"-c\", {script}]\n"
    ));
    let open = |client: &str, ahead| {
        let mut agent = Agent::connect(yard.tcp());
        agent.write(&json!({ "toolyard": 1, "token": minted(SECRET, client, ahead) }));
        agent.shake_hands()
    };
    let messages = |agent: &mut Agent| {
        agent.changes_within(Duration::from_secs(1));
        agent.received.iter().filter(|(_, line)| line["method"] == "notifications/message").count()
    };
    let (mut one, mut same) = (open("one", 0), open("one", 1));
    one.wait_for_tools(&["talker__go"]);
    one.call("talker__go", &json!({}));
    assert_eq!((messages(&mut one), messages(&mut same)), (1, 1), "both clients of one principal receive it");
    let mut other = open("other", 0);
    other.tools();
    one.call("talker__go", &json!({}));
    assert_eq!(messages(&mut other), 0, "it had no call there");
}

#[test]
fn a_used_token_is_refused_after_the_gateway_was_killed() {
    let mut yard = yard();
    let token = yard.token("MyApp");
    let (_app, answer) = try_register(&yard, "MyApp", Some(&token));
    assert_eq!(answer["type"], "registered", "{answer}");
    yard.kill();
    yard.restart();
    let (_, answer) = try_register(&yard, "MyApp", Some(&token));
    assert_eq!(answer["type"], "refused", "{answer}");
    assert!(answer["reason"].as_str().unwrap().contains("used before"), "{answer}");
    let mut agent = Agent::connect(yard.tcp());
    agent.write(&json!({ "toolyard": 1, "token": token }));
    let refused = agent.answer_or_refusal();
    assert!(refused["error"]["message"].as_str().unwrap().contains("not accepted"), "{refused}");
    let (_app, answer) = try_register(&yard, "MyApp", Some(&yard.token("MyApp")));
    assert_eq!(answer["type"], "registered", "{answer}");
}
