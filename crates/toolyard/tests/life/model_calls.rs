//! Calls of models through the gateway: cancelled by the client, ended by a timeout of the config, and with an answer that a
//! hook changes.

use serde_json::{Value, json};

use crate::http;
use crate::provider::{Provider, Silent, compatible};
use crate::wire;
use crate::yard::{Gateway, Yard, soon};

const USER: [(&str, &str); 1] = [("authorization", "Bearer user")];

fn gateway(yard: &Yard, silent: &Silent, more: &str) -> Gateway {
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n\
         [packs.models.providers.local]\nkind = \"compatible\"\nbase_url = \"{}\"\nkey = \"k\"\n{more}",
        silent.url
    ));
    yard.start()
}

/// The requests that `get_cost_report` counts as cancelled and as failed.
fn reported(gateway: &Gateway) -> (u64, u64) {
    let call = json!({ "name": "models__get_cost_report", "arguments": {} });
    let report = http::read(http::modern_with(gateway.url(), &USER, "tools/call", call)).message();
    let total = &report["result"]["structuredContent"]["total"];
    let count = |of: &str| total[of].as_u64().unwrap_or_else(|| panic!("{report}"));
    // What a request that was cut off cost is not known.
    assert_eq!((&total["cost"], count("without_price")), (&Value::Null, count("cancelled")), "{report}");
    (count("cancelled"), count("failed"))
}

fn is_reported(gateway: &Gateway, cancelled: u64) {
    soon("the cost report counts the cancelled requests", || {
        let found = reported(gateway);
        if found == (cancelled, 0) { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

fn equals(found: usize, expected: usize) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{found} of {expected}")) }
}

#[test]
fn cancelling_a_call_closes_the_connection_to_the_provider() {
    let (yard, silent) = (Yard::new(&[]), Silent::start());
    let gateway = gateway(&yard, &silent, "");
    let arguments = json!({ "prompt": "p", "model": "local/m" });

    // A modern client cancels by closing its stream.
    let call = json!({ "name": "models__ask_model", "arguments": arguments });
    let stream = http::modern_with(gateway.url(), &USER, "tools/call", call.clone());
    soon("the provider has the request", || equals(silent.asked(), 1));
    assert_eq!(silent.closed(), 0);
    drop(stream);
    soon("the connection to the provider is closed", || equals(silent.closed(), 1));

    // A legacy client sends a notification.
    let session = wire::open_session(gateway.url(), USER[0]);
    let headers = wire::borrowed(&session);
    let request = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call });
    let _stream = http::send(gateway.url(), &headers, &request);
    soon("the provider has the request", || equals(silent.asked(), 2));
    assert_eq!(silent.closed(), 1);
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9 } });
    assert_eq!(http::post(gateway.url(), &headers, &cancel).status, 202);
    soon("the connection to the provider is closed", || equals(silent.closed(), 2));
    is_reported(&gateway, 2);
}

#[test]
fn the_request_that_the_timeout_of_a_run_with_tools_cuts_off_is_in_the_cost_report() {
    let (yard, silent) = (Yard::new(&[]), Silent::start());
    yard.also("[packs.models]\ntools = [\"dev:uuid\"]\n[packs.dev]\n");
    let gateway = gateway(&yard, &silent, "");
    let arguments = json!({ "prompt": "p", "model": "local/m", "timeout": 1 });
    let call = json!({ "name": "models__ask_model_with_tools", "arguments": arguments });
    let done = http::read(http::modern_with(gateway.url(), &USER, "tools/call", call)).message();
    assert_eq!(done["result"]["structuredContent"]["stopped_by"], "timeout", "{done}");
    is_reported(&gateway, 1);
}

#[test]
fn the_config_sets_another_time_for_all_tools_of_a_pack_and_for_one_of_them() {
    let (yard, silent) = (Yard::new(&[]), Silent::start());
    let more = "[tools.\"models:*\"]\ntimeout = \"1s\"\n[tools.\"models:ask_model\"]\ntimeout = \"2s\"\n";
    let gateway = gateway(&yard, &silent, more);
    for (tool, seconds) in [("ask_model", 2), ("invoke_openai", 1)] {
        let arguments = json!({ "prompt": "p", "model": "local/m" });
        let call = json!({ "name": format!("models__{tool}"), "arguments": arguments });
        let reply = http::read(http::modern_with(gateway.url(), &USER, "tools/call", call));
        let expected = format!("made no progress for {seconds} s and was cancelled");
        assert!(reply.body.contains(&expected), "{tool}: {}", reply.body);
    }
    soon("both connections to the provider are closed", || equals(silent.closed(), 2));
    is_reported(&gateway, 2);
}

/// A gateway whose hook redacts what models write, in front of a model that writes this secret in each turn.
fn redacting(yard: &Yard, secret: &str) -> (Provider, Gateway) {
    let text = format!("The token is {secret}.");
    let model = Provider::scripted(move |request| {
        let mut events = compatible(&text);
        let has_results = request["messages"].to_string().contains("tool_call_id");
        if request["tools"].is_array() && !has_results {
            let call = json!({ "name": "dev__uuid", "arguments": "{}" });
            events[0]["choices"][0]["delta"]["tool_calls"] =
                json!([{ "index": 0, "id": "c1", "type": "function", "function": call }]);
        }
        events
    });
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n[hooks.no-secrets]\nuse = \"redact\"\non = \"post_model_invoke\"\nmatches = [\"m\"]\n\
         [packs.dev]\n[packs.models]\ntools = [\"dev:uuid\"]\n\
         [packs.models.providers.local]\nkind = \"compatible\"\nbase_url = \"{}\"\n",
        model.url
    ));
    let gateway = yard.start();
    (model, gateway)
}

#[test]
fn a_hook_that_redacts_secrets_redacts_the_answer_of_a_model_and_its_parts() {
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let yard = Yard::new(&[]);
    let (_model, gateway) = redacting(&yard, &secret);
    let ask = |model: &str| {
        let arguments = json!({ "prompt": "p", "model": model });
        let call = json!({ "name": "models__ask_model", "arguments": arguments });
        http::read(wire::with_progress(gateway.url(), &USER, "tools/call", call))
    };
    let redacted = ask("local/m");
    let answer = redacted.message();
    assert_eq!(answer["result"]["structuredContent"]["text"], "The token is [redacted].", "{answer}");
    assert!(!redacted.body.contains(&secret), "{}", redacted.body);
    let plain = ask("local/other").body;
    let parts: Vec<&str> = plain.lines().filter(|line| line.contains("dev.toolyard/partial")).collect();
    assert!(
        parts.concat().contains(&secret),
        "no hook is for this model, so its text comes in parts: {plain}"
    );
}

#[test]
fn a_hook_that_redacts_secrets_redacts_every_turn_of_a_model_with_tools() {
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let yard = Yard::new(&[]);
    let (model, gateway) = redacting(&yard, &secret);
    let work = |max_turns: usize| {
        let arguments = json!({ "prompt": "p", "model": "local/m", "max_turns": max_turns });
        let call = json!({ "name": "models__ask_model_with_tools", "arguments": arguments });
        let events: Vec<Value> =
            wire::events(wire::with_progress(gateway.url(), &USER, "tools/call", call)).collect();
        assert!(events.iter().all(|event| !event.to_string().contains(&secret)), "{events:?}");
        events.last().unwrap()["result"]["structuredContent"].clone()
    };
    let answered = work(5);
    assert_eq!(answered["stopped_by"], "answer", "{answered}");
    assert_eq!(answered["text"], "The token is [redacted].", "{answered}");
    assert_eq!(answered["turns"][0]["text"], "The token is [redacted].", "{answered}");
    assert_eq!(answered["turns"][0]["calls"][0]["failed"], false, "{answered}");
    let own = model.asked().last().unwrap()["messages"].to_string();
    assert!(own.contains(&secret), "the model gets back what it wrote: {own}");
    let stopped = work(1);
    assert_eq!(stopped["stopped_by"], "max_turns", "{stopped}");
    assert_eq!(stopped["turns"][0]["text"], "The token is [redacted].", "{stopped}");
}
