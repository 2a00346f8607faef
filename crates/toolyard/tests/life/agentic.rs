//! A model that works with tools of two servers of the gateway, and runaways that each bound stops.

use serde_json::{Value, json};

use crate::http;
use crate::provider::Provider;
use crate::yard::{Gateway, Yard};

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
    let user = [("authorization", "Bearer user")];
    let reply = http::read(http::modern_with(gateway.url(), &user, "tools/call", params)).message();
    reply["result"].clone()
}

#[test]
fn calls_of_one_turn_run_at_the_same_time_on_two_servers() {
    let model = Provider::scripted(|request| {
        let has_results = request["contents"].to_string().contains("functionResponse");
        if has_results { crate::provider::gemini("both met") } else { calls(&["ann__meet", "bob__meet"]) }
    });
    let yard = Yard::new(&[]);
    let gateway = start(&yard, &model);
    let done = work(&gateway, "invoke_gemini_agentic", &json!({ "prompt": "Let them meet" }));
    let worked = &done["structuredContent"];
    assert_eq!((&worked["text"], &worked["stopped_by"]), (&json!("both met"), &json!("answer")), "{done}");
    assert_eq!(worked["turns"][0]["calls"].as_array().unwrap().len(), 2, "{done}");
    let asked = model.asked();
    let results = asked[1]["contents"].to_string();
    assert!(results.contains("ann met bob") && results.contains("bob met ann"), "{results}");
    let offered = asked[0]["tools"][0]["functionDeclarations"].as_array().unwrap().len();
    assert_eq!(offered, 4, "only the tools that match: {}", asked[0]["tools"]);
}

#[test]
fn a_runaway_is_stopped_by_turns_tokens_and_money() {
    let model = Provider::scripted(|_| calls(&["ann__tick"]));
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
    }
}
