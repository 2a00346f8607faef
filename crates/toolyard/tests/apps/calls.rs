//! Calls and their answers: each agent gets its own answer, whatever else happens.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{App, Door, Yard};

#[test]
fn a_thousand_calls_answered_out_of_order_by_three_apps_each_reach_their_agent() {
    let yard = Yard::start("");
    let names = ["One", "Two", "Three"];
    let doors = [Door::Tcp, Door::Unix, Door::Tcp];
    let mut apps: Vec<App> =
        names.iter().zip(doors).map(|(name, door)| App::register(&yard, door, name, &["go"])).collect();
    let mut agent = yard.agent();
    agent.wait_for_tools(&["One__go", "Three__go", "Two__go"]);
    let sent: Vec<(u64, usize)> = (0..1000)
        .map(|number| {
            (agent.send_call(&format!("{}__go", names[number % 3]), &json!({ "number": number })), number)
        })
        .collect();
    let mut ids = std::collections::HashSet::new();
    for (at, app) in apps.iter_mut().enumerate() {
        let mut calls: Vec<Value> =
            (0..1000).filter(|number| number % 3 == at).map(|_| app.invocation()).collect();
        // Answered in an order that differs as much as possible from that of the calls.
        calls.reverse();
        let half = calls.len() / 2;
        calls.rotate_left(half);
        for call in &calls {
            assert!(ids.insert(call["correlationId"].as_i64().unwrap()), "{call}");
            assert_eq!(call["tool"], "go");
            let number = call["parameters"]["number"].clone();
            app.answer(call, &json!({ "app": names[at], "number": number }));
        }
    }
    for (id, number) in sent {
        let answer = agent.answer(id);
        let expected = json!({ "app": names[number % 3], "number": number });
        assert_eq!(answer["result"]["structuredContent"], expected, "{answer}");
    }
}

#[test]
fn a_tool_may_have_a_time_of_its_own_while_others_of_the_app_go_on() {
    let yard =
        Yard::start("\n[tools.\"Slow:hang\"]\ntimeout = \"1s\"\n\n[tools.\"*:ha*\"]\ntimeout = \"20m\"\n");
    let mut app = App::register(&yard, Door::Tcp, "Slow", &["hang", "haste", "quick"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Slow__hang", "Slow__haste", "Slow__quick"]);
    let began = Instant::now();
    let hanging = agent.send_call("Slow__hang", &json!({}));
    app.invocation();
    let others =
        ["Slow__haste", "Slow__quick"].map(|name| (agent.send_call(name, &json!({})), app.invocation()));
    let failed = agent.answer(hanging);
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(failed["result"]["_meta"]["dev.toolyard/error"]["kind"], "timeout", "{failed}");
    let text = failed["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Slow:hang made no progress for 1 s"), "{text}");
    for (id, call) in others {
        app.answer(&call, &json!("here"));
        assert_eq!(agent.answer(id)["result"]["content"][0]["text"], "here");
    }
}

#[test]
fn a_hung_tool_ends_at_its_timeout_and_delays_no_other_call() {
    let yard = Yard::start("timeout = \"1s\"\n");
    for door in Door::ALL {
        let name = format!("Slow{door:?}");
        let mut app = App::register(&yard, door, &name, &["hang", "quick"]);
        let mut agent = yard.agent();
        let (hang, quick) = (format!("{name}__hang"), format!("{name}__quick"));
        crate::support::eventually("its tools", || agent.tools().contains(&hang).then_some(()));
        let began = Instant::now();
        let hanging = agent.send_call(&hang, &json!({}));
        let silent = app.invocation();
        let id = agent.send_call(&quick, &json!({}));
        let call = app.invocation();
        app.answer(&call, &json!("here"));
        assert_eq!(agent.answer(id)["result"]["content"][0]["text"], "here");
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
        let failed = agent.answer(hanging);
        let took = began.elapsed();
        assert!((900..2000).contains(&took.as_millis()), "{took:?}");
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        assert_eq!(failed["result"]["_meta"]["dev.toolyard/error"]["kind"], "timeout", "{failed}");
        // The app receives a cancel, and its late answer is dropped.
        let cancel = app.next();
        assert_eq!((&cancel["type"], &cancel["correlationId"]), (&json!("cancel"), &silent["correlationId"]));
        app.answer(&silent, &json!("late"));
        app.answer(&json!({ "correlationId": 987_654_321 }), &json!("unknown"));
        let id = agent.send_call(&quick, &json!({}));
        let call = app.invocation();
        app.answer(&call, &json!("still here"));
        assert_eq!(agent.answer(id)["result"]["content"][0]["text"], "still here");
    }
}

#[test]
fn when_an_app_dies_its_calls_fail_at_once_by_name() {
    let yard = Yard::start("");
    for door in Door::ALL {
        let name = format!("Mortal{door:?}");
        let mut agent = yard.agent();
        let app = App::register(&yard, door, &name, &["go"]);
        let shown = format!("{name}__go");
        crate::support::eventually("its tool", || agent.tools().contains(&shown).then_some(()));
        let id = agent.send_call(&shown, &json!({}));
        app.invocation();
        let began = Instant::now();
        drop(app);
        let failed = agent.answer(id);
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        let text = failed["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&name) && text.contains("Check that the app is running"), "{text}");
        // So does the next call, without any wait.
        let text = agent.failure(&shown);
        assert!(text.contains(&name) && text.contains("not connected"), "{text}");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}

#[test]
fn over_tcp_and_the_local_socket_answers_of_any_size_and_fragmentation_arrive_whole() {
    let yard = Yard::start("");
    for door in Door::ALL {
        let name = format!("Big{door:?}");
        let mut app = App::register(&yard, door, &name, &["shoot"]);
        let mut agent = yard.agent();
        let shown = format!("{name}__shoot");
        crate::support::eventually("its tool", || agent.tools().contains(&shown).then_some(()));
        let id = agent.send_call(&shown, &json!({ "text": "äöü🦀" }));
        let call = app.invocation();
        assert_eq!(call["parameters"]["text"], "äöü🦀");
        // The crab has four bytes; it is cut in the middle, and so is the screenshot.
        let picture = format!("iVBORw0KGgo{}", "A".repeat(3 * 1024 * 1024));
        let result =
            json!({ "success": true, "data": { "format": "png", "base64Data": picture, "title": "🦀" } });
        let line = format!(
            "{}\n",
            json!({ "type": "toolResponse", "correlationId": call["correlationId"], "result": result })
        );
        let bytes = line.as_bytes();
        let crab = line.find('🦀').unwrap();
        for piece in [&bytes[..100], &bytes[100..=crab], &bytes[crab + 1..crab + 3], &bytes[crab + 3..]] {
            app.write(piece);
        }
        let answer = agent.answer(id);
        let content = &answer["result"]["content"];
        assert_eq!((&content[0]["type"], &content[0]["mimeType"]), (&json!("image"), &json!("image/png")));
        assert_eq!(content[0]["data"].as_str().unwrap().len(), picture.len());
        assert_eq!(content[1]["text"], r#"{"format":"png","title":"🦀"}"#);
    }
}

#[test]
fn progress_and_cancel_pass_both_ways() {
    let yard = Yard::start("");
    let mut app = App::register(&yard, Door::Tcp, "App", &["go"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["App__go"]);
    let params = json!({ "name": "App__go", "arguments": {}, "_meta": { "progressToken": "p1" } });
    let id = agent.send("tools/call", params);
    let call = app.invocation();
    let id_of = &call["correlationId"];
    app.send(
        &json!({ "type": "progress", "correlationId": id_of, "progress": 1, "total": 2, "message": "half" }),
    );
    app.answer(&call, &json!("done"));
    assert_eq!(agent.answer(id)["result"]["content"][0]["text"], "done");
    let progress = &agent.received.last().unwrap().1;
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p1");
    assert_eq!(
        (&progress["params"]["progress"], &progress["params"]["message"]),
        (&json!(1), &json!("half"))
    );
    let id = agent.send_call("App__go", &json!({}));
    let call = app.invocation();
    agent.write(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
    );
    let cancel = app.next();
    assert_eq!((&cancel["type"], &cancel["correlationId"]), (&json!("cancel"), &call["correlationId"]));
}
