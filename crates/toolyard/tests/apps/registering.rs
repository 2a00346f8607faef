//! Which apps may register which tools, and what happens to them.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{App, Door, Yard, tool};

#[test]
fn tools_of_an_existing_app_are_there_within_a_second() {
    let yard = Yard::start("");
    for door in Door::ALL {
        let mut agent = yard.agent();
        let name = format!("WatchTower-{door:?}");
        let began = Instant::now();
        // As the library of existing apps sends it: with the prefix.
        let click = format!("{name}:ClickElement");
        let _app = App::register(&yard, door, &name, &[&click, "TypeText"]);
        let shown = [format!("{name}__ClickElement"), format!("{name}__TypeText")];
        let is_shown = |tools: &[String]| shown.iter().all(|name| tools.contains(name));
        while !is_shown(&agent.tools()) {
            assert!(began.elapsed() < Duration::from_secs(1), "{:?}", agent.tools());
        }
    }
}

#[test]
fn apps_with_the_same_tool_are_all_callable_and_none_speaks_for_another() {
    let yard = Yard::start("");
    for door in Door::ALL {
        let names = ["A", "B", "C"].map(|letter| format!("{letter}{door:?}"));
        let apps = names.each_ref().map(|name| App::register(&yard, door, name, &["go"]).echo());
        let mut agent = yard.agent();
        for name in &names {
            let shown = format!("{name}__go");
            crate::support::eventually("its tool", || agent.tools().contains(&shown).then_some(()));
            let answer = agent.call(&shown, &json!({ "for": name }));
            assert_eq!(answer["structuredContent"]["parameters"]["for"], name.as_str(), "{answer}");
        }
        let mut thief = App::connect(&yard, door);
        let stolen = format!("{}:go", names[1]);
        thief.send(&json!({ "type": "register", "appName": format!("Thief{door:?}"), "tools": [tool(&stolen), tool("own")] }));
        let answer = thief.next();
        assert_eq!(answer["tools"], json!([format!("Thief{door:?}:own")]), "{answer}");
        assert_eq!(answer["refused"][0]["name"], stolen, "{answer}");
        assert!(answer["refused"][0]["reason"].as_str().unwrap().contains("own id"), "{answer}");
        drop(apps);
    }
}

#[test]
fn a_second_app_of_the_same_name_is_refused_with_guidance_and_the_first_is_unharmed() {
    let yard = Yard::start("");
    for door in Door::ALL {
        let name = format!("MyApp-{door:?}");
        let mut first = App::register(&yard, door, &name, &["go"]);
        let mut second = App::connect(&yard, door);
        // Names that differ only in case are the same app.
        second.send(&json!({ "type": "register", "appName": name.to_uppercase(), "tools": [tool("go")] }));
        let refused = second.next();
        assert_eq!(refused["type"], "refused", "{refused}");
        assert!(refused["reason"].as_str().unwrap().contains("connected already"), "{refused}");
        assert!(refused["guidance"].as_str().unwrap().contains("-Development"), "{refused}");
        assert!(second.is_closed());
        let mut agent = yard.agent();
        let shown = format!("{name}__go");
        crate::support::eventually("its tool", || agent.tools().contains(&shown).then_some(()));
        let id = agent.send_call(&shown, &json!({}));
        let invocation = first.invocation();
        first.answer(&invocation, &json!("fine"));
        assert_eq!(agent.answer(id)["result"]["content"][0]["text"], "fine");
    }
}

#[test]
fn an_app_that_presents_its_session_id_replaces_its_old_connection() {
    let yard = Yard::start("");
    let first = App::register(&yard, Door::Tcp, "App", &["go"]);
    let mut second = App::connect(&yard, Door::Tcp);
    second.send(
        &json!({ "type": "register", "appName": "App", "sessionId": first.session, "tools": [tool("go2")] }),
    );
    let answer = second.next();
    assert_eq!((&answer["type"], &answer["sessionId"]), (&json!("registered"), &json!(first.session)));
    assert!(first.is_closed());
    yard.agent().wait_for_tools(&["App__go2"]);
}

#[test]
fn apps_cannot_use_an_id_of_the_config_or_a_reserved_one() {
    let yard = Yard::start("\n[upstreams.files]\nurl = \"http://127.0.0.1:9/mcp\"\n");
    for (name, reason) in [
        ("files", "belongs to an upstream of the config"),
        ("dev", "belongs to a built-in pack"),
        ("hub", "reserved"),
        ("My App", "contains ' '"),
        ("7up", "starts with `7`"),
    ] {
        let mut app = App::connect(&yard, Door::Tcp);
        app.send(&json!({ "type": "register", "appName": name, "tools": [] }));
        let refused = app.next();
        assert!(refused["reason"].as_str().unwrap().contains(reason), "{refused}");
        assert!(!refused["guidance"].as_str().unwrap().is_empty(), "{refused}");
    }
}

#[test]
fn a_bad_tool_is_refused_by_name_and_the_good_ones_stay() {
    let yard = Yard::start("");
    let mut app = App::connect(&yard, Door::Tcp);
    let older = json!({ "name": "older", "description": "x", "inputSchema": { "type": "object", "properties": { "a": { "items": [{ "type": "string" }] } } } });
    let broken = json!({ "name": "broken", "description": "x", "inputSchema": { "type": "object", "properties": { "a": { "type": "wrong" } } } });
    let tools = json!([tool("good"), { "name": "mute" }, broken, older]);
    app.send(&json!({ "type": "register", "appName": "App", "tools": tools }));
    let answer = app.next();
    assert_eq!(answer["tools"], json!(["App:good", "App:older"]), "{answer}");
    let refused: Vec<&str> =
        answer["refused"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(refused, ["mute", "broken"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["App__good", "App__older"]);
    let listed = agent.ask("tools/list", json!({}));
    let older =
        listed["result"]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "App__older");
    assert_eq!(older.unwrap()["inputSchema"]["$schema"], "http://json-schema.org/draft-07/schema#");
}

#[test]
fn clients_of_another_protocol_are_referred_to_the_right_address() {
    let yard = Yard::start("");
    for (line, words) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#, "message of an MCP client"),
        ("GET / HTTP/1.1", "not JSON"),
        (r#"{"type":"register"}"#, "needs `appName`"),
    ] {
        let mut app = App::connect(&yard, Door::Tcp);
        app.write(format!("{line}\n").as_bytes());
        let refused = app.next();
        assert!(refused["reason"].as_str().unwrap().contains(words), "{refused}");
        assert!(app.is_closed());
    }
    // A message of an unknown type is answered once before the registration, and ignored.
    let mut app = App::connect(&yard, Door::Tcp);
    app.write(b"{\"type\":\"hello\"}\n\n{\"type\":\"hello\"}\n");
    let ignored = app.next();
    assert_eq!(ignored["type"], "ignored");
    assert!(ignored["reason"].as_str().unwrap().contains("received `hello`"), "{ignored}");
    assert!(ignored["guidance"].as_str().unwrap().contains("\"register\""), "{ignored}");
    app.send(&json!({ "type": "register", "appName": "App", "tools": [tool("go")] }));
    assert_eq!(app.next()["type"], "registered");
    app.write(b"garbage\n{\"type\":\"dance\"}\n[]\n");
    let mut agent = yard.agent();
    agent.wait_for_tools(&["App__go"]);
    let id = agent.send_call("App:go", &json!({}));
    let invocation = app.invocation();
    app.answer(&invocation, &json!(1));
    assert_eq!(agent.answer(id)["result"]["content"][0]["text"], "1");
}

/// A program that registers, leaves its connection to a child, and waits to be killed.
const PARENT: &str = r#"
exec 3<>/dev/tcp/${1%:*}/${1##*:}
printf '{"type":"register","appName":"App","pid":%s,"tools":[]}\n' $$ >&3
read -r line <&3; echo "$line"
sleep 600 & wait
"#;

#[test]
fn an_app_whose_old_process_is_gone_gets_its_id_back_though_a_child_holds_the_connection() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    let yard = Yard::start("");
    let mut old = Command::new("bash");
    let old = old.args(["-c", PARENT, "parent", &yard.apps_tcp()]).process_group(0).stdout(Stdio::piped());
    let mut old = old.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(old.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("registered"), "{line}");
    let register = || {
        let mut app = App::connect(&yard, Door::Tcp);
        app.send(&json!({ "type": "register", "appName": "App", "tools": [tool("go")] }));
        let answer = app.next();
        (app, answer)
    };
    assert_eq!(register().1["type"], "refused", "the first lives");
    old.kill().unwrap();
    old.wait().unwrap();
    let (_app, answer) = register();
    let group = format!("-{}", old.id());
    Command::new("kill").args(["-9", "--", &group]).status().unwrap();
    assert_eq!(answer["type"], "registered", "{answer}");
    yard.agent().wait_for_tools(&["App__go"]);
}

#[test]
fn an_app_that_later_offers_an_invalid_tool_receives_an_error_and_keeps_its_session() {
    let yard = Yard::start("");
    let mut app = App::register(&yard, Door::Tcp, "Paint", &["draw"]);
    let session = app.session.clone();
    let bad = json!([tool("sketch"), { "name": "9", "description": "no name" }]);
    for message in [
        json!({ "type": "toolsChanged", "tools": bad }),
        json!({ "type": "register", "appName": "Paint", "tools": bad }),
    ] {
        app.send(&message);
        let message = app.next();
        assert_eq!(
            (&message["type"], &message["sessionId"]),
            (&json!("registered"), &json!(session)),
            "{message}"
        );
        assert_eq!(
            (&message["tools"], &message["refused"][0]["name"]),
            (&json!(["Paint:sketch"]), &json!("9"))
        );
    }
    yard.agent().wait_for_tools(&["Paint__sketch"]);
}
