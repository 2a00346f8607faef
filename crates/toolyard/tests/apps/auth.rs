//! Who has to prove who they are, and how.

use serde_json::{Value, json};

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
fn row_12_apps_without_a_good_token_are_refused_and_the_log_holds_no_secret() {
    let yard = yard();
    let good = yard.token("MyApp");
    let (app, answer) = try_register(&yard, "MyApp", Some(&good));
    assert_eq!(answer["type"], "registered", "{answer}");
    let forged = good.replace("MyApp", "Forged");
    for (token, reason) in [
        (None, "a token is required"),
        (Some("nonsense"), "has not the form"),
        (Some(forged.as_str()), "another secret"),
        (Some(good.as_str()), "used before"),
    ] {
        let (_, answer) = try_register(&yard, "Other", token);
        assert_eq!(answer["type"], "refused", "{answer}");
        assert!(answer["reason"].as_str().unwrap().contains(reason), "{answer}");
    }
    let said = yard.said();
    assert!(said.contains("an app was not let in"), "{said}");
    let signature = good.rsplit(':').next().unwrap();
    assert!(!said.contains(signature) && !said.contains(SECRET), "{said}");
    // The same client takes its seat back; another does not.
    let (_, refused) = try_register(&yard, "MyApp", Some(&yard.token("Else")));
    assert_eq!(refused["type"], "refused", "{refused}");
    let (_again, answer) = try_register(&yard, "MyApp", Some(&yard.token("MyApp")));
    assert_eq!(answer["type"], "registered", "{answer}");
    assert!(app.is_closed());
}

#[test]
fn row_12_agents_bring_their_token_in_the_opening_line_or_the_handshake() {
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
fn row_12_over_http_a_token_is_good_for_the_connection_that_it_opened() {
    let yard = yard();
    let token = yard.token("web");
    let mut first = yard.http(Some(&token));
    assert_eq!(first.list(), 200);
    assert_eq!(first.list(), 200);
    assert_eq!(yard.http(Some(&token)).list(), 401);
    assert_eq!(yard.http(None).list(), 401);
    assert_eq!(yard.http(Some(&yard.token("web"))).list(), 200);
    // Commands of the program know the secret.
    let (code, said) = yard.run(&["tools", "list"]);
    assert_eq!(code, 0, "{said}");
}
