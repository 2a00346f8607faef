//! A model that works with tools of two servers of the gateway, and runaways that each bound stops.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http;
use crate::provider::Provider;
use crate::wire;
use crate::yard::{Gateway, Yard};

const USER: [(&str, &str); 1] = [("authorization", "Bearer user")];

/// A turn of Gemini that calls these tools.
fn calls(names: &[&str]) -> Vec<Value> {
    let part = |name: &&str| json!({ "functionCall": { "name": name, "args": {} } });
    let parts: Vec<Value> = names.iter().map(part).collect();
    vec![json!({
        "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 1000, "candidatesTokenCount": 100 },
    })]
}

fn start(yard: &Yard, model: &Provider) -> Gateway {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/life/meeting.py");
    let folder = yard.folder().display();
    let upstream = |own: &str, other: &str| {
        format!(
            "[upstreams.{own}]\ncommand = \"python3\"\nargs = [\"{script}\", \"{folder}\", \"{own}\", \"{other}\"]\nera = \"legacy\"\n"
        )
    };
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n{}{}\
         [packs.models]\nper_minute = 0\ntools = [\"ann:*\", \"bob:*\"]\n\
         [packs.models.providers.google]\nkind = \"gemini\"\nbase_url = \"{}\"\nkey = \"k\"\n\
         [packs.models.providers.google.models.gemini-3-flash]\nprice_in = 1.0\nprice_out = 1.0\n",
        upstream("ann", "bob"),
        upstream("bob", "ann"),
        model.url,
    ));
    yard.start()
}

fn work(gateway: &Gateway, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": format!("models__{tool}"), "arguments": arguments });
    let reply = http::read(http::modern_with(gateway.url(), &USER, "tools/call", params)).message();
    reply["result"].clone()
}

/// The messages of progress notifications.
fn notes(events: &[Value]) -> Vec<String> {
    let progress = events.iter().filter(|event| event["method"] == "notifications/progress");
    progress.map(|event| event["params"]["message"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn calls_of_one_turn_run_at_the_same_time_on_two_servers_and_each_step_is_progress() {
    let model = Provider::scripted(|request| {
        let has_results = request["contents"].to_string().contains("functionResponse");
        if has_results { crate::provider::gemini("both met") } else { calls(&["ann__meet", "bob__meet"]) }
    });
    let yard = Yard::new(&[]);
    let gateway = start(&yard, &model);
    let call = json!({ "name": "models__invoke_gemini_agentic", "arguments": { "prompt": "Let them meet" } });
    let stream = wire::with_progress(gateway.url(), &USER, "tools/call", call);
    let events: Vec<Value> = wire::events(stream).collect();
    let (notes, done) = (notes(&events), &events.last().unwrap()["result"]);
    let mut steps: Vec<&str> = notes.iter().map(String::as_str).filter(|note| !note.is_empty()).collect();
    // Both calls begin at the same time, in any order.
    steps[1..3].sort_unstable();
    assert_eq!(steps, ["turn 1 of 10", "calling ann__meet", "calling bob__meet", "turn 2 of 10"]);
    let worked = &done["structuredContent"];
    assert_eq!((&worked["text"], &worked["stopped_by"]), (&json!("both met"), &json!("answer")), "{done}");
    assert_eq!(worked["turns"][0]["calls"].as_array().unwrap().len(), 2, "{done}");
    let asked = model.asked();
    let results = asked[1]["contents"].to_string();
    assert!(results.contains("ann met bob") && results.contains("bob met ann"), "{results}");
    let offered = asked[0]["tools"][0]["functionDeclarations"].as_array().unwrap().len();
    assert_eq!(offered, 6, "only the tools that match: {}", asked[0]["tools"]);
}

#[test]
fn a_runaway_on_two_servers_is_stopped_by_turns_tokens_money_and_time() {
    let model = Provider::scripted(|_| calls(&["ann__tick", "bob__tick"]));
    let yard = Yard::new(&[]);
    let gateway = start(&yard, &model);
    for (bound, expected) in [
        (json!({ "max_turns": 3 }), "max_turns"),
        (json!({ "max_turns": 50, "max_total_tokens": 2000 }), "max_tokens"),
        (json!({ "max_turns": 50, "max_cost": 0.002 }), "max_cost"),
    ] {
        let mut arguments = json!({ "prompt": "Never stop", "model": "google/gemini-3-flash" });
        arguments.as_object_mut().unwrap().extend(bound.as_object().unwrap().clone());
        let before = model.asked().len();
        let done = work(&gateway, "ask_model_with_tools", &arguments);
        assert_eq!(done["structuredContent"]["stopped_by"], expected, "{done}");
        let turns = model.asked().len() - before;
        assert!((2..=3).contains(&turns), "{expected}: {turns} turns");
        assert!(done["structuredContent"]["usage"]["input_tokens"].as_u64().unwrap() >= 2000, "{done}");
        is_work_on_both(&done);
    }
    drop(gateway);
    stopped_by_time();
}

/// A model that takes its time for each turn, so that the time is up before the turns are.
fn stopped_by_time() {
    let model = Provider::scripted(|_| {
        std::thread::sleep(Duration::from_millis(150));
        calls(&["ann__tick", "bob__tick"])
    });
    let yard = Yard::new(&[]);
    let gateway = start(&yard, &model);
    let arguments =
        json!({ "prompt": "Never stop", "model": "google/gemini-3-flash", "max_turns": 100, "timeout": 3 });
    let begun = Instant::now();
    let done = work(&gateway, "ask_model_with_tools", &arguments);
    assert_eq!(done["structuredContent"]["stopped_by"], "timeout", "{done}");
    assert_eq!(done["structuredContent"]["text"], "The time was up before the final response", "{done}");
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    is_work_on_both(&done);
    let asked = model.asked().len();
    assert!((2..=20).contains(&asked), "{asked} turns in 3 s");
}

fn is_work_on_both(done: &Value) {
    let calls = done["structuredContent"]["turns"][0]["calls"].as_array().unwrap();
    let outcomes: Vec<_> =
        calls.iter().map(|call| (call["tool"].as_str().unwrap(), call["failed"] == true)).collect();
    assert_eq!(outcomes, [("ann__tick", false), ("bob__tick", false)], "{done}");
}

/// A call of a client whose user can be asked: the question, and what the model did after the user's answer.
fn work_with_a_user(gateway: &Gateway, answer: &Value) -> (String, Value) {
    work_with_a_slow_user(gateway, answer, &json!({}), Duration::ZERO)
}

/// The same with further arguments, and a user who thinks before the answer.
fn work_with_a_slow_user(
    gateway: &Gateway,
    answer: &Value,
    more: &Value,
    thinking: Duration,
) -> (String, Value) {
    let mut arguments = json!({ "prompt": "Wipe it", "model": "google/gemini-3-flash" });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut params = json!({ "name": "models__ask_model_with_tools", "arguments": arguments });
    let send = |params: &Value| {
        let capabilities = json!({ "elicitation": {} });
        let stream = wire::modern_of(gateway.url(), &USER, "tools/call", params.clone(), &capabilities);
        http::read(stream).message()["result"].clone()
    };
    let asked = send(&params);
    let questions = asked["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}"));
    let (key, question) = questions.iter().next().unwrap();
    assert_eq!((questions.len(), &question["method"]), (1, &json!("elicitation/create")), "{asked}");
    std::thread::sleep(thinking);
    params["inputResponses"] = json!({ key.as_str(): answer });
    params["requestState"] = asked["requestState"].clone();
    (question["params"]["message"].as_str().unwrap().to_owned(), send(&params))
}

#[test]
fn a_destructive_tool_is_called_after_the_user_has_allowed_it_and_not_otherwise() {
    let model = Provider::scripted(|request| {
        let has_results = request["contents"].to_string().contains("functionResponse");
        if has_results { crate::provider::gemini("finished") } else { calls(&["ann__wipe"]) }
    });
    let yard = Yard::new(&[]);
    let gateway = start(&yard, &model);
    let wiped = yard.folder().join("ann-wiped");
    for (answer, is_allowed) in [
        (json!({ "action": "decline" }), false),
        (json!({ "action": "cancel" }), false),
        (json!({ "action": "accept", "content": { "allow": false } }), false),
        (json!({ "action": "accept", "content": { "allow": true } }), true),
    ] {
        let (question, done) = work_with_a_user(&gateway, &answer);
        assert_eq!(question, "A model wants to call `ann__wipe` with {}.");
        assert_eq!(done["structuredContent"]["text"], "finished", "{answer}: {done}");
        assert_eq!(wiped.exists(), is_allowed, "{answer}: {done}");
        let call = &done["structuredContent"]["turns"][0]["calls"][0];
        assert_eq!((&call["tool"], &call["failed"]), (&json!("ann__wipe"), &json!(!is_allowed)), "{done}");
        let seen = model.asked().last().unwrap()["contents"].to_string();
        assert_eq!(seen.contains("the user did not allow `ann__wipe`"), !is_allowed, "{seen}");
    }
}

#[test]
fn the_time_of_the_work_is_not_that_of_its_user() {
    let model = Provider::scripted(|request| {
        let has_results = request["contents"].to_string().contains("functionResponse");
        if has_results { crate::provider::gemini("finished") } else { calls(&["ann__wipe"]) }
    });
    let yard = Yard::new(&[]);
    let gateway = start(&yard, &model);
    let answer = json!({ "action": "accept", "content": { "allow": true } });
    let more = json!({ "timeout": 4 });
    // The servers are started.
    assert_ne!(work_with_a_user(&gateway, &answer).1["isError"], true);
    let (_, done) = work_with_a_slow_user(&gateway, &answer, &more, Duration::from_secs(5));
    assert_eq!(done["structuredContent"]["stopped_by"], "answer", "{done}");
    assert_eq!(done["structuredContent"]["text"], "finished", "{done}");
}

#[test]
fn an_error_of_the_provider_comes_with_the_calls_that_were_made_before_it() {
    let model = Provider::scripted(|request| {
        let has_results = request["contents"].to_string().contains("functionResponse");
        let error = json!({ "error": { "code": 400, "status": "INVALID_ARGUMENT", "message": "too long" } });
        if has_results { vec![error] } else { calls(&["ann__tick", "bob__tick"]) }
    });
    let yard = Yard::new(&[]);
    let gateway = start(&yard, &model);
    let arguments = json!({ "prompt": "Tick", "model": "google/gemini-3-flash" });
    let done = work(&gateway, "ask_model_with_tools", &arguments);
    assert_eq!((&done["isError"], &done["structuredContent"]["stopped_by"]), (&json!(true), &json!("error")));
    is_work_on_both(&done);
    let text = done["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("too long"), "{text}");
    assert!(text.ends_with("This ended the work after calls of ann__tick, bob__tick."), "{text}");
}
