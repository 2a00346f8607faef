//! What calls of models leave behind: everything that the gateway writes is read, at the most talkative log level.

use std::path::Path;

use serde_json::{Value, json};

use crate::http;
use crate::provider::{Provider, compatible, gemini};
use crate::yard::Yard;

/// What must be in no log, file or record.
const SECRETS: [&str; 6] = [
    "sk-first-key",
    "sk-second-key",
    "header-secret",
    "the-user-token",
    "the secret prompt",
    "the secret answer",
];

fn config(google: &str, local: &str) -> String {
    format!(
        "[listen]\ntoken = \"the-user-token\"\nmodels = \"127.0.0.1:0\"\n[log]\nlevel = \"trace\"\n[audit]\n\
         [packs.models]\nfallback = \"local/m\"\n\
         [packs.models.providers.google]\nkind = \"gemini\"\nbase_url = \"{google}\"\nkey = \"sk-first-key\"\n\
         [packs.models.providers.local]\nkind = \"compatible\"\nbase_url = \"{local}\"\nkey = \"sk-second-key\"\n\
         headers = {{ \"x-account\" = \"header-secret\" }}\n\
         [packs.models.providers.broken]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nkey = \"sk-first-key\"\n"
    )
}

#[test]
fn no_key_token_prompt_or_answer_is_in_anything_that_the_gateway_writes() {
    let google = Provider::start(gemini("the secret answer"));
    let local = Provider::start(compatible("the secret answer"));
    let quoting = json!({ "error": { "code": 400, "message": "sk-first-key: the secret prompt" } });
    let quoting = Provider::start(vec![quoting]);
    let yard = Yard::new(&[]);
    yard.also(&config(&google.url, &local.url));
    yard.also(&format!(
        "[packs.models.providers.quoting]\nkind = \"gemini\"\nbase_url = \"{}\"\nkey = \"sk-first-key\"\n",
        quoting.url
    ));
    let gateway = yard.start();
    let user = [("authorization", "Bearer the-user-token")];
    let call = |tool: &str, mut arguments: Value| {
        arguments["prompt"] = "the secret prompt".into();
        let params = json!({ "name": format!("models__{tool}"), "arguments": arguments });
        http::read(http::modern_with(gateway.url(), &user, "tools/call", params)).message()["result"].clone()
    };
    let agent = json!({ "agent_type": "explore", "description": "Find code" });
    let answered = call("invoke_gemini", json!({ "model": "google/g", "agent_context": agent }));
    assert!(answered.to_string().contains("the secret answer"), "{answered}");
    call("ask_model", json!({ "model": "local/m", "system": "the secret prompt" }));
    call("ask_model_with_tools", json!({ "model": "local/m", "tools": ["dev:*"] }));
    call("ask_model", json!({ "model": "broken/m", "agent_context": agent }));
    let refused = call("invoke_gemini", json!({ "model": "quoting/m" }));
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(!refused.to_string().contains("sk-first-key"), "{refused}");
    let wrong = [("authorization", "Bearer the-user-tokem")];
    http::read(http::modern_with(gateway.url(), &wrong, "tools/list", json!({})));
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let log = gateway.wait();
    assert!(log.contains("[explore] → google/g: Find code..."), "the log was read: {log}");
    let written = written_below(yard.folder());
    assert!(written.contains("invoke_gemini"), "the records were read");
    for secret in SECRETS {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "`{secret}` is in the log");
        assert!(!written.contains(secret), "`{secret}` is in a file");
    }
}

/// Everything in the files below a folder, except the config.
pub(crate) fn written_below(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text.push_str(&written_below(&path));
        } else if path.is_file() && path.file_name().is_some_and(|name| name != "config.toml") {
            text.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
    text
}
