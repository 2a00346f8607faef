//! Apps that register, disconnect, come back and change.

use std::time::Duration;

use serde_json::json;

use crate::support::{App, Door, Yard, eventually, tool};

#[test]
fn tools_of_an_app_that_unregisters_are_removed_at_once() {
    let yard = Yard::start("");
    for door in Door::ALL {
        let name = format!("Polite{door:?}");
        let mut agent = yard.agent().shake_hands();
        let mut app = App::register(&yard, door, &name, &["go"]);
        agent.wait_for_news(|tools| tools == [format!("{name}__go")]);
        app.send(&json!({ "type": "unregister" }));
        agent.wait_for_news(<[String]>::is_empty);
        let text = agent.failure(&format!("{name}__go"));
        assert!(text.contains(&name) && text.contains("unregistered"), "{text}");
        let (_, listed) = yard.run(&["list"]);
        assert!(!listed.contains(&name), "{listed}");
        assert!(app.is_closed());
    }
}

#[test]
fn an_app_that_restarts_twenty_times_is_back_each_time_with_its_current_tools() {
    let yard = Yard::start("");
    let mut agent = yard.agent().shake_hands();
    for round in 0..20 {
        let door = Door::ALL[round % 2];
        let mut app = App::connect(&yard, door);
        let mut changed = tool("go");
        changed["inputSchema"]["properties"]["round"] = json!({ "const": round });
        app.send(&json!({ "type": "register", "appName": "App", "tools": [changed] }));
        assert_eq!(app.next()["type"], "registered");
        eventually("the new schema", || {
            let listed = agent.ask("tools/list", json!({}));
            let tools = listed["result"]["tools"].as_array().unwrap().clone();
            let own = tools.into_iter().find(|tool| tool["name"] == "App__go")?;
            (own["inputSchema"]["properties"]["round"]["const"] == round).then_some(())
        });
        let id = agent.send_call("App__go", &json!({}));
        let call = app.invocation();
        app.answer(&call, &json!(round));
        assert_eq!(agent.answer(id)["result"]["content"][0]["text"], round.to_string());
    }
}

#[test]
fn fifty_reconnects_in_a_second_are_announced_at_most_three_times() {
    let yard = Yard::start("");
    let mut agent = yard.agent().shake_hands();
    for round in 0..50 {
        let app = App::register(&yard, Door::ALL[round % 2], "Flap", &["go"]);
        drop(app);
    }
    let app = App::register(&yard, Door::Tcp, "Flap", &["go", "last"]);
    eventually("the last word", || (agent.tools() == ["Flap__go", "Flap__last"]).then_some(()));
    let changes = agent.changes_within(Duration::from_millis(1500));
    assert!((1..=3).contains(&changes), "{changes} announcements");
    drop(app);
}

#[test]
fn tools_come_and_go_while_the_app_runs() {
    let yard = Yard::start("");
    for door in Door::ALL {
        let name = format!("Live{door:?}");
        let mut agent = yard.agent().shake_hands();
        let mut app = App::register(&yard, door, &name, &["a"]);
        let (a, b) = (format!("{name}__a"), format!("{name}__b"));
        agent.wait_for_news(|tools| tools.contains(&a));
        app.send(&json!({ "type": "toolsChanged", "tools": [tool("a"), tool("b")] }));
        agent.wait_for_news(|tools| tools.contains(&b));
        let id = agent.send_call(&b, &json!({}));
        let call = app.invocation();
        assert_eq!(call["tool"], "b");
        app.answer(&call, &json!("b"));
        assert_eq!(agent.answer(id)["result"]["content"][0]["text"], "b");
        // Existing apps may simply register again.
        app.send(&json!({ "type": "register", "appName": name, "tools": [tool("b")] }));
        agent.wait_for_news(|tools| !tools.contains(&a));
        let id = agent.send_call(&a, &json!({}));
        let unknown = agent.answer(id);
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    }
}

#[test]
fn an_app_and_the_gateway_can_ping_each_other() {
    let yard = Yard::start("");
    let mut app = App::register(&yard, Door::Tcp, "App", &["a"]);
    app.send(&json!({ "type": "heartbeat" }));
    assert_eq!(app.next(), json!({ "type": "heartbeat", "answer": true }));
    app.send(&json!({ "type": "heartbeat", "answer": true }));
    assert_eq!(app.next_within(Duration::from_millis(200)), None);
}

#[test]
fn the_state_of_an_app_is_reported() {
    let yard = Yard::start("");
    let mut agent = yard.agent();
    let app = App::register(&yard, Door::Tcp, "App", &["a"]);
    agent.wait_for_tools(&["App__a"]);
    let about = agent.upstream("App");
    assert_eq!((&about["state"], &about["kind"]), (&json!("active"), &json!("app")), "{about}");
    drop(app);
    eventually("its loss", || {
        let about = agent.upstream("App");
        (about["state"] == "retrying" && about["reason"].as_str()?.contains("closed")).then_some(())
    });
}

#[test]
fn after_each_of_five_restarts_of_the_gateway_an_app_that_dials_again_is_back() {
    let mut yard = Yard::start("");
    for round in 0..5 {
        let mut app =
            eventually("the door", || Some(App::register(&yard, Door::ALL[round % 2], "App", &["go"])));
        let mut agent = yard.agent();
        agent.wait_for_tools(&["App__go"]);
        let id = agent.send_call("App__go", &json!({}));
        let call = app.invocation();
        app.answer(&call, &json!(round));
        assert_eq!(agent.answer(id)["result"]["content"][0]["text"], round.to_string());
        yard.restart();
        assert!(app.is_closed());
    }
}
