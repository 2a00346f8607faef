//! An upstream that asks the client's model, with clients that have none: a model of the config answers.

use serde_json::{Value, json};

use crate::http;
use crate::model_privacy::written_below;
use crate::provider::{Provider, compatible};
use crate::yard::Yard;

fn yard(sampling: &str, url: &str) -> Yard {
    let yard = Yard::new(&[]);
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/life/sampler.py");
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n\
         [upstreams.sampler]\ncommand = \"python3\"\nargs = [\"{server}\"]\n{sampling}\n\
         [packs.models.providers.local]\nkind = \"compatible\"\nbase_url = \"{url}\"\nkey = \"a-secret-key\"\n"
    ));
    yard
}

fn think(url: &str, times: u32) -> String {
    think_about(url, &json!({ "times": times }))
}

fn think_about(url: &str, arguments: &Value) -> String {
    let call = json!({ "name": "sampler__think", "arguments": arguments });
    let authorization = [("authorization", "Bearer user")];
    let message = http::read(http::modern_with(url, &authorization, "tools/call", call)).message();
    let text = message["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[test]
fn a_model_answers_for_clients_that_cannot_sample_within_its_budget() {
    let model = Provider::start(compatible("42"));
    let yard = yard(
        "era = \"legacy\"\nsampling = \"model:local/small\"\nsampling_tokens = 50\nsampling_per_call = 2",
        &model.url,
    );
    let gateway = yard.start();
    assert_eq!(think(gateway.url(), 1), "42 by small");
    let asked = &model.asked()[0];
    assert_eq!((&asked["model"], &asked["max_tokens"]), (&json!("small"), &json!(50)), "{asked}");
    assert!(asked["messages"].to_string().contains("a secret prompt"), "{asked}");
    let beyond = think(gateway.url(), 3);
    assert!(beyond.starts_with("42 by small; 42 by small; error: ") && beyond.contains("limit"), "{beyond}");
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let log = gateway.wait();
    let written = log + &written_below(yard.folder());
    for secret in ["a-secret-key", "a secret prompt", "Be brief."] {
        assert!(!written.contains(secret), "`{secret}` was written");
    }
}

/// A call of a client whose user can be asked, and which cannot sample.
fn ask_as_one_that_can_be_asked(url: &str, params: Value) -> Value {
    call_with(url, &json!({ "elicitation": {} }), params)
}

/// A call of a client with these capabilities.
fn call_with(url: &str, capabilities: &Value, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "sampler__think"),
        ("authorization", "Bearer user"),
    ];
    http::post(url, &headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
        .message()
}

#[test]
fn a_model_answers_questions_that_a_modern_server_puts_into_its_answer() {
    let model = Provider::start(compatible("42"));
    let yard = yard("era = \"modern\"\nsampling = \"model:local/small\"\nsampling_per_call = 2", &model.url);
    let gateway = yard.start();
    assert_eq!(think(gateway.url(), 2), "42 by small; 42 by small");
    assert_eq!(model.asked().len(), 2);
    let beyond = think(gateway.url(), 3);
    assert!(beyond.contains("which is the limit"), "{beyond}");
    // A question for the user goes to the client, which answers it; the model answers the rest.
    let call = json!({ "name": "sampler__think", "arguments": { "times": 1, "confirm": true } });
    let asked = ask_as_one_that_can_be_asked(gateway.url(), call.clone());
    let questions = asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}"));
    assert_eq!(questions.keys().collect::<Vec<_>>(), ["sure"], "{asked}");
    let mut again = call;
    again["inputResponses"] = json!({ "sure": { "action": "accept", "content": {} } });
    again["requestState"] = asked["result"]["requestState"].clone();
    let done = ask_as_one_that_can_be_asked(gateway.url(), again);
    assert_eq!(done["result"]["content"][0]["text"], "42 by small", "{done}");
}

#[test]
fn a_client_that_can_sample_is_asked_itself_although_a_model_is_set() {
    for era in ["modern", "legacy"] {
        let model = Provider::start(compatible("42"));
        let yard = yard(&format!("era = \"{era}\"\nsampling = \"model:local/small\""), &model.url);
        let gateway = yard.start();
        let call = json!({ "name": "sampler__think", "arguments": { "times": 1 } });
        let able = json!({ "sampling": {} });
        let asked = call_with(gateway.url(), &able, call.clone());
        let questions =
            asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{era}: {asked}"));
        let (key, question) = questions.iter().next().unwrap();
        assert_eq!(question["method"], "sampling/createMessage", "{era}: {asked}");
        let mut again = call;
        let own = json!({ "role": "assistant", "content": { "type": "text", "text": "7" }, "model": "own" });
        again["inputResponses"] = json!({ key: own });
        again["requestState"] = asked["result"]["requestState"].clone();
        let done = call_with(gateway.url(), &able, again);
        assert_eq!(done["result"]["content"][0]["text"], "7 by own", "{era}: {done}");
        assert_eq!(model.asked().len(), 0, "{era}: the model of the config is not asked");
    }
}

#[test]
fn without_the_setting_no_model_is_asked() {
    let model = Provider::start(compatible("42"));
    let yard = yard("era = \"legacy\"", &model.url);
    let gateway = yard.start();
    let refused = think(gateway.url(), 1);
    assert!(refused.starts_with("error: "), "{refused}");
    assert_eq!(model.asked().len(), 0);
}

#[test]
fn hooks_of_models_can_refuse_an_answer_for_a_client_that_cannot_sample() {
    let model = Provider::start(compatible("42"));
    let yard = yard("era = \"legacy\"\nsampling = \"model:local/small\"", &model.url);
    let hook = "grep -q 'a secret prompt' && echo 'not for this model' >&2 && exit 2";
    yard.also(&format!(
        "[hooks.no]\non = \"pre_model_invoke\"\ncommand = \"sh\"\nargs = [\"-c\", \"{hook}\"]\ntimeout = \"1m\"\non_failure = \"block\"\n"
    ));
    let gateway = yard.start();
    let refused = think(gateway.url(), 1);
    assert!(refused.starts_with("error: ") && refused.contains("not for this model"), "{refused}");
    assert_eq!(model.asked().len(), 0, "the hook refused before anything was sent");
}

#[test]
fn hooks_of_models_refuse_and_redact_earlier_messages_and_all_their_blocks() {
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let model = Provider::start(compatible("42"));
    let yard = yard("era = \"legacy\"\nsampling = \"model:local/small\"", &model.url);
    let hook = "grep -q 'not this one' && echo 'not for this model' >&2 && exit 2; exit 0";
    yard.also(&format!(
        "[hooks.redact]\nuse = \"redact\"\non = \"pre_model_invoke\"\n\
         [hooks.no]\non = \"pre_model_invoke\"\ncommand = \"sh\"\nargs = [\"-c\", \"{hook}\"]\ntimeout = \"1m\"\non_failure = \"block\"\n"
    ));
    let gateway = yard.start();
    let earlier = ["the token".to_owned(), format!("is {secret}")];
    assert_eq!(think_about(gateway.url(), &json!({ "earlier": earlier })), "42 by small");
    let asked = &model.asked()[0]["messages"].to_string();
    assert!(asked.contains("is [redacted]") && asked.contains("a secret prompt"), "{asked}");
    assert!(!asked.contains(&secret), "{asked}");
    let refused = think_about(gateway.url(), &json!({ "earlier": ["fine", "not this one"] }));
    assert!(refused.starts_with("error: ") && refused.contains("not for this model"), "{refused}");
    assert_eq!(model.asked().len(), 1, "the hook refused before anything was sent");
}
