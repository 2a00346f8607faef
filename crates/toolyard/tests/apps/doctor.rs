//! What `toolyard doctor` reports about a running gateway.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{App, Door, Yard, eventually};

fn report(yard: &Yard) -> Value {
    let (_, found) = yard.run(&["doctor", "--json"]);
    serde_json::from_str::<Value>(&found).unwrap_or_else(|_| panic!("not JSON: {found}"))["report"].take()
}

#[test]
fn doctor_prints_apps_clients_and_calls_with_what_they_took() {
    let yard = Yard::start("");
    let mut app = App::register(&yard, Door::Tcp, "Busy", &["go"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Busy__go"]);
    for (success, error) in [(true, Value::Null), (false, json!("no"))] {
        let id = agent.send_call("Busy__go", &json!({ "password": "s3cret" }));
        let call = app.invocation();
        app.respond(&call, &json!({ "success": success, "data": "s3cret", "error": error }));
        agent.answer(id);
    }
    let unknown = agent.send_call("Busy__nothing", &json!({}));
    agent.answer(unknown);

    let found = report(&yard);
    let busy = found["apps"][0].clone();
    assert_eq!((&busy["id"], &busy["status"]), (&json!("Busy"), &json!("Connected")), "{busy}");
    assert!(busy["endpoint"].as_str().unwrap().starts_with("tcp://127.0.0.1:"), "{busy}");
    assert!(busy["connectedAt"].is_string() && busy["lastActivity"].is_string(), "{busy}");
    let calls = found["calls"].as_array().unwrap().iter();
    let own: Vec<Value> = calls.filter(|call| call["session"] == "connection-1").cloned().collect();
    let seen: Vec<(&str, &str)> =
        own.iter().map(|call| (call["tool"].as_str().unwrap(), call["status"].as_str().unwrap())).collect();
    assert_eq!(seen, [("Busy__nothing", "refused"), ("Busy:go", "tool-error"), ("Busy:go", "ok")]);
    assert!(own[2]["durationMs"].as_f64().unwrap() > 0.0, "{own:?}");
    let upstreams = found["upstreams"].as_array().unwrap();
    let upstream = upstreams.iter().find(|upstream| upstream["id"] == "Busy").unwrap();
    assert_eq!((&upstream["calls"]["total"], &upstream["calls"]["failed"]), (&json!(2), &json!(1)));
    assert!(upstream["calls"]["meanMs"].as_f64().unwrap() > 0.0, "{upstream}");
    assert_eq!(upstream["history"][0]["to"], "active", "{upstream}");
    let clients = found["clients"].as_array().unwrap();
    let client = clients.iter().find(|client| client["client"] == "connection-1").unwrap();
    assert!(client["calls"]["total"].as_u64().unwrap() >= 3, "{client}");

    let (code, text) = yard.run(&["doctor"]);
    assert_eq!(code, 0, "{text}");
    for part in ["Busy  Connected", "Busy:go", "tool-error", " ms", "connection-1"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("s3cret") && !found.to_string().contains("s3cret"), "{text}");
}

#[test]
fn doctor_lists_what_was_found_where_and_what_was_left_out() {
    let yard = Yard::start("");
    yard.write_instance("toolyard", "broken.json", "{\"id\":");
    eventually("word of the file", || {
        let found = report(&yard)["discovery"].take();
        let files = found.as_array()?.iter().find(|way| way["way"] == "files")?.clone();
        let skipped = files["skipped"].as_array()?.iter();
        let mut origins = skipped.filter_map(|one| one["origin"].as_str());
        (origins.any(|origin| origin.contains("broken.json")) && !files["places"].as_array()?.is_empty())
            .then_some(())
    });
    let (code, text) = yard.run(&["doctor"]);
    assert!(code == 0 && text.contains("discovery by files") && text.contains("broken.json"), "{text}");
}

#[test]
fn apps_are_reported_as_connected_reconnecting_disconnected_or_unregistered() {
    let yard = Yard::start("");
    let app = App::register(&yard, Door::Unix, "Busy", &["go"]);
    let status = |expected: &str| {
        eventually(expected, || {
            let busy = report(&yard)["apps"][0].take();
            (busy["status"] == expected && busy["connectedAt"].is_string()).then_some(())
        });
    };
    status("Connected");
    drop(app);
    status("Reconnecting");
    let mut app = App::register(&yard, Door::Unix, "Busy", &["go"]);
    status("Connected");
    app.send(&json!({ "type": "unregister" }));
    status("Unregistered");
}

#[test]
fn a_taken_address_for_apps_is_reported_and_retried_while_the_rest_works() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let yard = Yard::start_with_apps_at(&address);
    let mut agent = yard.agent();
    assert!(agent.tools().is_empty());
    assert!(yard.stderr().contains(&format!("apps cannot register at {address}: another program has it")));
    let (code, text) = yard.run(&["doctor"]);
    assert!(code == 1 && text.contains(&format!("{address} is taken by another program")), "{text}");
    let socket = App::register(&yard, Door::Unix, "Meanwhile", &["go"]);
    agent.wait_for_tools(&["Meanwhile__go"]);
    drop(other);
    eventually("the door", || std::net::TcpStream::connect(&address).ok());
    let (code, text) = yard.run(&["doctor"]);
    assert!(code == 0 && !text.contains("is taken"), "{text}");
    drop(socket);
}

#[test]
fn without_listeners_for_apps_everything_else_is_served() {
    let yard = Yard::start_with_flags(&["--no-apps"]);
    assert!(yard.note("apps").is_null() && yard.note("apps_socket").is_null(), "{}", yard.stderr());
    let mut agent = yard.agent();
    assert!(agent.ask("tools/list", json!({}))["result"]["tools"].is_array());
    let (code, text) = yard.run(&["doctor"]);
    assert_eq!(code, 0, "{text}");
}
