//! The listener for programs that ask models without MCP: the same tools, limits, credentials and records.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::http;
use crate::provider::{self, Provider};
use crate::wire;
use crate::yard::{Gateway, OPERATOR, Yard};

struct Scene {
    yard: Yard,
    gateway: Gateway,
    provider: Provider,
    proxy: String,
}

fn scene(listen: &str) -> Scene {
    let provider = Provider::scripted(|body| match body["model"].as_str() {
        Some("gpt-5.2") => provider::openai("hello from gpt"),
        _ => provider::gemini("hello from the model"),
    });
    let yard = Yard::new(&[]);
    let url = &provider.url;
    yard.also(&format!(
        "[listen]\nmodels = \"127.0.0.1:0\"\n{listen}\n[audit]\n\
         [packs.models]\nper_minute = 4\n\
         [packs.models.providers.google]\nkind = \"gemini\"\nbase_url = \"{url}\"\nkey = \"a-secret-key\"\n\
         [packs.models.providers.openai]\nkind = \"openai\"\nbase_url = \"{url}\"\nkey = \"a-secret-key\"\n"
    ));
    let gateway = yard.start();
    let file = std::fs::read_to_string(yard.folder().join("state/gateway.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let proxy = file["models"].as_str().unwrap_or_else(|| panic!("{file}")).to_owned();
    Scene { yard, gateway, provider, proxy }
}

impl Scene {
    fn get(&self, path: &str) -> http::Reply {
        let address = self.proxy.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
        http::read(stream)
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", authorization.as_str()), ("x-request-id", "r-7")];
        let reply = http::post(&format!("{}{path}", self.proxy), &headers, body);
        assert_eq!(reply.header("x-request-id"), Some("r-7"), "{path}");
        assert!(reply.header("x-process-time").is_some(), "{path}");
        (reply.status, serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{}", reply.body)))
    }
}

#[test]
fn programs_without_mcp_ask_models_with_the_limits_and_records_of_the_tools() {
    let scene = scene("token = \"user\"");
    let health = scene.get("/health");
    assert_eq!((health.status, health.body.as_str()), (200, "{\"status\":\"ok\"}"));
    let about = json!({ "agent_type": "explore", "session_id": "s-1" });
    let (status, answer) = scene.post(
        "/v1/gemini/generate",
        "user",
        &json!({ "prompt": "a secret prompt", "max_tokens": 77, "agent_context": about }),
    );
    let expected = "[Auth: key | Model: gemini-3-flash]\n\nhello from the model";
    assert_eq!((status, &answer["response"]), (200, &json!(expected)), "{answer}");
    assert_eq!(scene.provider.asked()[0]["generationConfig"]["maxOutputTokens"], 77);
    let agentic = json!({ "prompt": "p", "tools": ["dev:*"] });
    let (status, answer) = scene.post("/v1/gemini/agentic", "user", &agentic);
    assert_eq!((status, &answer["response"]), (200, &json!(expected)), "{answer}");
    let offered = &scene.provider.asked()[1]["tools"][0]["functionDeclarations"];
    assert!(offered.as_array().is_some_and(|tools| !tools.is_empty()), "the model got tools: {offered}");

    let (status, answer) =
        scene.post("/v1/openai/chat", "user", &json!({ "prompt": "p", "reasoning_effort": "high" }));
    assert_eq!((status, &answer["response"]), (200, &json!("hello from gpt")), "{answer}");
    let asked = &scene.provider.asked()[2];
    assert_eq!(
        (&asked["model"], &asked["reasoning"]["effort"]),
        (&json!("gpt-5.2"), &json!("high")),
        "{asked}"
    );

    // A provider that speaks another protocol is an error with its reason.
    let other = json!({ "prompt": "p", "model": "openai/other" });
    let (status, answer) = scene.post("/v1/openai/chat", "user", &other);
    assert_eq!(status, 500, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("of provider `openai`"), "{answer}");

    let call = json!({ "name": "models__get_cost_report", "arguments": {} });
    let user = [("authorization", "Bearer user")];
    let report = http::read(http::modern_with(scene.gateway.url(), &user, "tools/call", call)).message();
    let report = &report["result"]["structuredContent"];
    assert_eq!(
        (&report["total"]["requests"], &report["total"]["failed"]),
        (&json!(4), &json!(1)),
        "{report}"
    );
    assert_eq!(report["by_session"].as_array().unwrap().len(), 2, "{report}");

    // Four requests a minute are for the proxy and the tools together, so the fifth waits.
    let call = json!({ "name": "models__invoke_gemini", "arguments": { "prompt": "p" } });
    let waiting = wire::with_progress(scene.gateway.url(), &user, "tools/call", call);
    let note = wire::events(waiting).find(|event| event["method"] == "notifications/progress").unwrap();
    assert!(note["params"]["message"].as_str().unwrap().starts_with("waiting for all models"), "{note}");
    assert_eq!(scene.provider.asked().len(), 4);
}

#[test]
fn a_user_sees_its_own_costs_and_an_operator_those_of_all() {
    let scene = scene(&format!("token = \"user\"\noperator_token = \"{OPERATOR}\""));
    let as_user = |tool: &str, arguments: &Value| {
        let call = json!({ "name": tool, "arguments": arguments });
        http::modern_with(scene.gateway.url(), &[("authorization", "Bearer user")], "tools/call", call)
    };
    let as_operator = |tool: &str, arguments: &Value| scene.gateway.begin_as_operator(tool, arguments);
    let (ask, prompt) = ("models__invoke_gemini", json!({ "prompt": "p" }));
    for asked in [as_user(ask, &prompt), as_operator(ask, &prompt)] {
        let answer = http::read(asked).message();
        assert!(answer["result"]["isError"] != true, "{answer}");
    }
    let requests =
        |report| http::read(report).message()["result"]["structuredContent"]["total"]["requests"].clone();
    let (report, nothing) = ("models__get_cost_report", json!({}));
    let seen = [requests(as_user(report, &nothing)), requests(as_operator(report, &nothing))];
    assert_eq!(seen, [1, 2]);
}

#[test]
fn requests_to_the_proxy_that_prove_no_user_or_are_no_calls_are_refused() {
    let closed = scene("token = \"user\"");
    let prompt = json!({ "prompt": "p" });
    let check = |scene: &Scene, path: &str, token: &str, body: &Value, expected: (u16, &str)| {
        let (status, answer) = scene.post(path, token, body);
        let detail = answer["detail"].as_str().unwrap_or_else(|| panic!("{path}: {answer}"));
        assert!(status == expected.0 && detail.contains(expected.1), "{path}: {status} {detail}");
    };
    check(&closed, "/v1/gemini/generate", "other", &prompt, (401, "a bearer token is required"));
    check(&closed, "/v1/elsewhere", "user", &prompt, (404, "there is nothing at /v1/elsewhere"));
    check(&closed, "/v1/gemini/generate", "user", &json!([1]), (422, "expected a JSON object"));
    check(&closed, "/v1/gemini/generate", "user", &json!({ "prompt": 1 }), (500, "prompt"));
    let get = closed.get("/v1/gemini/generate");
    assert_eq!(get.status, 405);
    let foreign = [("origin", "https://evil.example"), ("authorization", "Bearer user")];
    assert_eq!(http::post(&format!("{}/v1/gemini/generate", closed.proxy), &foreign, &prompt).status, 403);
    assert_eq!(closed.provider.asked().len(), 0);

    // Where no token is set, no connection proves its user, and models are not for everyone on this machine.
    let open = scene("");
    check(&open, "/v1/gemini/generate", "x", &prompt, (500, "prove"));
    assert_eq!(open.provider.asked().len(), 0);
    drop((open.gateway, open.yard));
}
