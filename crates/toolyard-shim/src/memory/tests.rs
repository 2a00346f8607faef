//! One gateway after the other, line by line.

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn line(value: serde_json::Value) -> Bytes {
    Bytes::from(value.to_string())
}

fn read(line: &Bytes) -> serde_json::Value {
    serde_json::from_slice(line).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn request(id: u64, method: &str, params: serde_json::Value) -> Bytes {
    line(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// A client that has shaken hands.
fn initialized() -> Memory {
    let mut memory = Memory::default();
    memory.client_sent(request(0, "initialize", json!({ "protocolVersion": "2025-11-25" })));
    memory.gateway_sent(line(json!({ "jsonrpc": "2.0", "id": 0, "result": {} })));
    memory.client_sent(line(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })));
    memory
}

#[test]
fn a_new_gateway_receives_the_session_state_and_its_answers_do_not_reach_the_client() {
    let mut memory = initialized();
    for (id, level) in [(1, "debug"), (2, "error")] {
        memory.client_sent(request(id, "logging/setLevel", json!({ "level": level })));
    }
    for (id, method, uri) in [
        (3, "resources/subscribe", "a:"),
        (4, "resources/subscribe", "b:"),
        (5, "resources/unsubscribe", "a:"),
    ] {
        memory.client_sent(request(id, method, json!({ "uri": uri })));
    }
    for id in 1..=5 {
        memory.gateway_sent(line(json!({ "jsonrpc": "2.0", "id": id, "result": {} })));
    }
    assert!(memory.is_idle() && memory.lost("lost").is_empty());
    let sent: Vec<_> = [memory.introduction(), memory.settings()].concat().iter().map(read).collect();
    let methods: Vec<_> = sent.iter().map(|line| line["method"].as_str().unwrap()).collect();
    let expected = ["initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe"];
    assert_eq!(methods, expected);
    assert_eq!((&sent[2]["params"]["level"], &sent[3]["params"]["uri"]), (&json!("error"), &json!("b:")));
    let greeting = json!({ "capabilities": { "tools": { "listChanged": true }, "prompts": {} } });
    let received =
        memory.gateway_sent(line(json!({ "jsonrpc": "2.0", "id": sent[0]["id"], "result": greeting })));
    assert_eq!(
        received.iter().map(read).map(|line| line["method"].clone()).collect::<Vec<_>>(),
        ["notifications/tools/list_changed"]
    );
    assert!(
        memory.gateway_sent(line(json!({ "jsonrpc": "2.0", "id": sent[2]["id"], "result": {} }))).is_empty()
    );
}

#[test]
fn a_handshake_that_was_not_answered_is_made_again_as_it_was() {
    let mut memory = Memory::default();
    let hello = request(0, "initialize", json!({ "protocolVersion": "2025-11-25" }));
    memory.client_sent(hello.clone());
    assert!(memory.lost("lost").is_empty());
    assert_eq!(memory.introduction().iter().map(read).collect::<Vec<_>>(), [read(&hello)]);
    let failed = memory.given_up("no gateway could be reached");
    assert_eq!(read(&failed[0])["error"]["code"], -32603);
}

#[test]
fn undelivered_calls_are_reported_as_not_sent() {
    let mut memory = initialized();
    memory.client_sent(request(1, "tools/call", json!({ "name": "sent" })));
    let sent = memory.given_up("no gateway could be reached");
    assert!(sent[0].windows(12).any(|words| words == b"is not known"), "{sent:?}");
    memory.client_sent(request(2, "tools/call", json!({ "name": "kept" })));
    let kept: Vec<_> = memory.not_passed_on("no gateway could be reached").iter().map(read).collect();
    let expected = "no gateway could be reached; `kept` was not sent";
    assert_eq!(kept[0]["result"]["content"][0]["text"], expected, "{kept:?}");
    assert!(memory.is_idle());
}

#[test]
fn an_answer_never_reaches_a_gateway_that_did_not_ask() {
    let mut memory = initialized();
    let question = request(1, "roots/list", json!({}));
    assert_eq!(memory.gateway_sent(question.clone()), vec![question.clone()]);
    let taken_back = memory.lost("lost");
    assert_eq!(read(&taken_back[0])["params"]["requestId"], 1);
    let answer =
        |id: &serde_json::Value| line(json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] } }));
    let shown = read(&memory.gateway_sent(question.clone())[0])["id"].clone();
    assert_ne!(shown, json!(1));
    assert_eq!(memory.client_sent(answer(&json!(1))), None);
    assert_eq!(memory.client_sent(answer(&shown)).map(|line| read(&line)["id"].clone()), Some(json!(1)));
    let shown = read(&memory.gateway_sent(question)[0])["id"].clone();
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(read(&memory.gateway_sent(line(cancel))[0])["params"]["requestId"], shown);
}

#[test]
fn a_call_that_was_cancelled_is_not_failed() {
    let mut memory = initialized();
    memory.client_sent(request(7, "tools/call", json!({ "name": "slow" })));
    let params = json!({ "requestId": 7 });
    memory.client_sent(line(
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
    ));
    assert!(memory.lost("lost").is_empty());
}

#[test]
fn a_hub_session_is_reconnected_to_its_instance_before_anything_else() {
    let check = |is_hub: bool, steps: &[(&str, &str, serde_json::Value)], expected: &[&str]| {
        let mut memory = Memory { is_hub, ..initialized() };
        for (id, (name, about, result)) in (10..).zip(steps) {
            let asked = match *name {
                "watch" => request(id, "resources/subscribe", json!({ "uri": about })),
                name => {
                    request(id, "tools/call", json!({ "name": name, "arguments": { "instance_id": about } }))
                }
            };
            memory.client_sent(asked);
            memory.gateway_sent(line(json!({ "jsonrpc": "2.0", "id": id, "result": result })));
        }
        memory.lost("lost");
        let first: Vec<_> = memory.introduction().iter().map(read).collect();
        let mut sent: Vec<_> = first.iter().skip(2).map(|line| line["params"]["arguments"].clone()).collect();
        assert_eq!(memory.has_returned(), sent.is_empty());
        if let Some(last) = first.last().filter(|_| !sent.is_empty()) {
            let failed = json!({ "jsonrpc": "2.0", "id": last["id"], "result": { "isError": true } });
            assert!(memory.gateway_sent(line(failed)).is_empty(), "the client has had its answer");
            assert!(memory.has_returned());
        }
        sent.extend(memory.settings().iter().map(read).map(|line| line["params"]["uri"].clone()));
        let sent: Vec<String> =
            sent.iter().map(|one| one["instance_id"].as_str().or(one.as_str()).unwrap().to_owned()).collect();
        assert_eq!(sent, expected, "{steps:?}");
    };
    let (good, bad) = (json!({}), json!({ "isError": true }));
    let connect = |to: &'static str, result: &serde_json::Value| ("instances_connect", to, result.clone());
    let watch = ("watch", "a:", good.clone());
    check(true, &[connect("one", &good), watch.clone()], &["one", "a:"]);
    check(true, &[connect("one", &good), watch.clone(), connect("one", &good)], &["one", "a:"]);
    check(true, &[connect("one", &good), watch.clone(), connect("two", &good)], &["two"]);
    check(true, &[connect("one", &good), watch.clone(), connect("two", &bad)], &["one", "a:"]);
    let away = ("instances/disconnect", "", good.clone());
    check(true, &[connect("one", &good), watch.clone(), away], &[]);
    // In other views a tool of that name belongs to an upstream.
    check(false, &[connect("one", &good), watch], &["a:"]);
}

#[test]
fn read_only_requests_are_sent_to_the_next_gateway_and_others_fail() {
    let mut memory = initialized();
    let read = request(1, "resources/read", json!({ "uri": "a:" }));
    memory.client_sent(read.clone());
    memory.client_sent(request(2, "tools/call", json!({ "name": "write" })));
    let failed: Vec<_> = memory.lost("lost").iter().map(super::tests::read).collect();
    assert_eq!(failed.iter().map(|line| line["id"].clone()).collect::<Vec<_>>(), [json!(2)]);
    assert_eq!(memory.repeats(), vec![read]);
    assert_eq!(memory.gateway_sent(line(json!({ "jsonrpc": "2.0", "id": 1, "result": {} }))).len(), 1);
    assert!(memory.repeats().is_empty() && memory.is_idle());
}

#[test]
fn a_request_is_repeated_a_limited_number_of_times() {
    let mut memory = initialized();
    memory.client_sent(request(1, "tools/list", json!({})));
    for _ in 0..MOST_REPEATS {
        assert!(memory.lost("lost").is_empty());
    }
    assert_eq!(memory.lost("lost").len(), 1);
}
