//! Upstreams that stop answering and come back, through the real program with short times.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Agent, App, Door, Mortal, Proxy, Yard, eventually, tool};

pub(crate) const QUICK: &str = "[health]\ninterval = \"1s\"\ntimeout = \"1s\"\nmisses = 3\n";

fn port_of(folder: &std::path::Path, name: &str) -> u16 {
    let file = folder.join(format!("{name}.json"));
    let about: Value = eventually("its file", || serde_json::from_slice(&std::fs::read(&file).ok()?).ok());
    u16::try_from(about["port"].as_u64().unwrap()).unwrap()
}

fn wait_for_state(agent: &mut Agent, id: &str, state: &str) -> Value {
    eventually(state, || {
        let about = agent.upstream(id);
        (about["state"] == state).then_some(about)
    })
}

#[test]
fn a_blackholed_instance_is_retried_at_the_third_miss_and_active_when_it_answers() {
    let yard = Yard::start(QUICK);
    let elsewhere = tempfile::tempdir().unwrap();
    let _instance = Mortal::hidden(elsewhere.path(), "shop");
    let proxy = Proxy::to(port_of(elsewhere.path(), "shop"));
    let file = json!({ "id": "shop", "name": "shop", "directory": "/srv", "port": proxy.port });
    yard.write_instance("toolyard", "shop.json", &file.to_string());
    let mut agent = yard.agent();
    eventually("some answers", || {
        agent.upstream("shop")["health"]["answers"].as_u64().filter(|count| *count >= 2)
    });
    proxy.hold(true);
    let away = wait_for_state(&mut agent, "shop", "retrying");
    assert_eq!(away["health"]["missesInARow"], 3, "{away}");
    assert!(away["reason"].as_str().unwrap().contains("3 pings in a row"), "{away}");
    let refused = agent.call("shop__who", &json!({ "word": "?" }));
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("did not answer 3 pings"), "{refused}");
    proxy.hold(false);
    let back = wait_for_state(&mut agent, "shop", "active");
    let health = &back["health"];
    assert_eq!((&health["missesInARow"], &health["healthy"]), (&json!(0), &json!(true)), "{back}");
    let [pings, answers, missed] = ["pings", "answers", "missed"].map(|key| health[key].as_u64().unwrap());
    assert!(missed >= 3 && pings - answers - missed <= 1, "{back}");
    let answer = agent.call("shop__who", &json!({ "word": "again" }));
    assert!(answer["content"][0]["text"].as_str().unwrap().ends_with("again"), "{answer}");
}

#[test]
fn missed_heartbeats_count_only_for_apps_that_support_them() {
    let yard = Yard::start(QUICK);
    let old = App::register(&yard, Door::Tcp, "Old", &["go"]);
    let mut new = App::connect(&yard, Door::Tcp);
    new.send(&json!({ "type": "register", "appName": "New", "version": 1, "tools": [tool("go")] }));
    assert_eq!(new.next()["type"], "registered");
    let mut agent = yard.agent();
    agent.wait_for_tools(&["New__go", "Old__go"]);
    for _ in 0..2 {
        assert_eq!(new.next()["type"], "heartbeat");
        new.send(&json!({ "type": "heartbeat", "answer": true }));
    }
    let away = wait_for_state(&mut agent, "New", "retrying");
    assert_eq!((&away["health"]["answers"], &away["health"]["missed"]), (&json!(2), &json!(3)), "{away}");
    assert_eq!(agent.upstream("Old")["state"], "active");
    new.send(&json!({ "type": "heartbeat", "answer": true }));
    let heartbeats = std::iter::from_fn(|| new.next_within(Duration::from_millis(1)));
    assert!(heartbeats.filter(|line| line["type"] == "heartbeat").count() >= 3);
    assert_eq!(new.next()["type"], "heartbeat", "it is still asked");
    new.send(&json!({ "type": "heartbeat", "answer": true }));
    wait_for_state(&mut agent, "New", "active");
    let call = agent.send_call("New__go", &json!({}));
    let asked = new.invocation();
    new.answer(&asked, &json!("back"));
    assert_eq!(agent.answer(call)["result"]["content"][0]["text"], "back");
    assert_eq!(old.next_within(Duration::from_millis(1)), None, "it is asked nothing that it does not know");
}

#[test]
fn a_failed_check_of_a_balanced_upstream_cuts_none_of_its_healthy_calls() {
    let elsewhere = tempfile::tempdir().unwrap();
    let _server = Mortal::hidden(elsewhere.path(), "far");
    let proxy = Proxy::to(port_of(elsewhere.path(), "far"));
    for era in ["modern", "legacy"] {
        let url = format!("http://127.0.0.1:{}/mcp", proxy.port);
        let yard = Yard::start(&format!("[upstreams.far]\nurl = \"{url}\"\nera = \"{era}\"\n"));
        let mut agent = yard.agent();
        agent.wait_for_tools(&["far__picture", "far__who"]);
        let healthy = agent.send_call("far__who", &json!({ "word": format!("healthy-{era}"), "wait": 4000 }));
        eventually("the call at the server", || proxy.has_passed(&format!("healthy-{era}")).then_some(()));
        proxy.refuse_and_cut_idle();
        // It waits for the server, or fails with its connection.
        let waiting = agent.send_call("far__who", &json!({ "word": format!("waiting-{era}") }));
        let about = wait_for_state(&mut agent, "far", "retrying");
        let answer = agent.answer(healthy);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.ends_with(&format!("healthy-{era}")), "{era}: {answer} {about}");
        proxy.accept_again();
        wait_for_state(&mut agent, "far", "active");
        let answer = agent.answer(waiting);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.ends_with(&format!("waiting-{era}")) || text.contains("`far`"), "{era}: {answer}");
    }
}
