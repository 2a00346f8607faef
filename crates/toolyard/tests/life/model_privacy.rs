//! What calls of models leave behind: everything that the gateway writes is read, at the most talkative log level.

use std::path::Path;

use serde_json::{Value, json};

use crate::account::{ACCESS, Account, REFRESH};
use crate::http;
use crate::provider::{Provider, compatible, gemini};
use crate::yard::{Gateway, Yard};

/// What must be in no log, file or record.
const SECRETS: [&str; 8] = [
    "sk-first-key",
    "sk-second-key",
    "header-secret",
    "the-user-token",
    ACCESS,
    REFRESH,
    "the secret prompt",
    "the secret answer",
];

const USER: [(&str, &str); 1] = [("authorization", "Bearer the-user-token")];

struct Scene {
    google: Provider,
    local: Provider,
    quoting: Provider,
    account: Account,
    yard: Yard,
}

impl Scene {
    fn new() -> Self {
        let quoting = json!({ "error": { "code": 400, "message": "sk-first-key: the secret prompt" } });
        let scene = Self {
            google: Provider::start(gemini("the secret answer")),
            local: Provider::start(compatible("the secret answer")),
            quoting: Provider::start(vec![quoting]),
            account: Account::start("the secret answer"),
            yard: Yard::new(&[]),
        };
        scene.yard.also(&scene.config());
        scene
    }

    fn config(&self) -> String {
        let provider = |name: &str, kind: &str, url: &str, more: &str| {
            format!("[packs.models.providers.{name}]\nkind = \"{kind}\"\nbase_url = \"{url}\"\n{more}\n")
        };
        let (first, second) = (
            "key = \"sk-first-key\"",
            "key = \"sk-second-key\"\nheaders = { \"x-account\" = \"header-secret\" }",
        );
        let issuer = &self.account.url;
        let google = provider("google", "gemini", &self.google.url, first);
        let local = provider("local", "compatible", &self.local.url, second);
        let quoting = provider("quoting", "gemini", &self.quoting.url, first);
        let broken = provider("broken", "anthropic", "http://127.0.0.1:1", first);
        let far = provider("far", "compatible", &format!("{issuer}/v1"), "login = \"account\"");
        format!(
            "[listen]\ntoken = \"the-user-token\"\nmodels = \"127.0.0.1:0\"\n[log]\nlevel = \"trace\"\n[audit]\n\
             [logins.account]\nissuer = \"{issuer}\"\nclient_id = \"yard\"\n[packs.dev]\n\
             [packs.models]\nfallback = \"local/m\"\n{google}{local}{quoting}{broken}{far}"
        )
    }

    /// Signs in as a user does in a terminal.
    fn sign_in(&self) {
        let mut command = self.yard.toolyard();
        command.args(["login", "account", "--device", "--state-dir", "state", "--config", "config.toml"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// A request to the model proxy: what it answered.
    fn post(&self, path: &str, body: &Value) -> String {
        let file = std::fs::read_to_string(self.yard.folder().join("state/gateway.json")).unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        let proxy = file["models"].as_str().unwrap_or_else(|| panic!("{file}"));
        http::post(&format!("{proxy}{path}"), &USER, body).body
    }
}

/// A call with the secret prompt: its result.
fn call(gateway: &Gateway, tool: &str, mut arguments: Value) -> Value {
    arguments["prompt"] = "the secret prompt".into();
    let params = json!({ "name": format!("models__{tool}"), "arguments": arguments });
    http::read(http::modern_with(gateway.url(), &USER, "tools/call", params)).message()["result"].clone()
}

fn has_answer(result: &Value) {
    assert_ne!(result["isError"], true, "{result}");
    assert!(result.to_string().contains("the secret answer"), "{result}");
}

/// Each call reaches its provider and is answered as that provider answers.
fn ask_all(scene: &Scene, gateway: &Gateway) {
    let asked = || {
        let Scene { google, local, quoting, account, .. } = scene;
        [google.asked().len(), local.asked().len(), quoting.asked().len(), account.asked()]
    };
    let agent = json!({ "agent_type": "explore", "description": "Find code" });
    has_answer(&call(gateway, "invoke_gemini", json!({ "model": "google/g", "agent_context": agent })));
    assert_eq!(asked(), [1, 0, 0, 0]);
    has_answer(&call(gateway, "ask_model", json!({ "model": "local/m", "system": "the secret prompt" })));
    assert_eq!(asked(), [1, 1, 0, 0]);
    let worked = call(gateway, "ask_model_with_tools", json!({ "model": "local/m", "tools": ["dev:*"] }));
    has_answer(&worked);
    assert_eq!(worked["structuredContent"]["stopped_by"], "answer", "{worked}");
    let offered = scene.local.asked()[1]["tools"].as_array().map_or(0, Vec::len);
    assert!(offered > 0 && asked() == [1, 2, 0, 0], "{offered} {:?}", asked());
    // Nothing listens there, so the fallback answers.
    let fallen = call(gateway, "ask_model", json!({ "model": "broken/m", "agent_context": agent }));
    has_answer(&fallen);
    assert_eq!((&fallen["structuredContent"]["provider"], asked()), (&json!("local"), [1, 3, 0, 0]));
    let refused = call(gateway, "invoke_gemini", json!({ "model": "quoting/m" }));
    assert_eq!((&refused["isError"], asked()), (&json!(true), [1, 3, 1, 0]), "{refused}");
    assert!(!refused.to_string().contains("sk-first-key"), "{refused}");
    has_answer(&call(gateway, "ask_model", json!({ "model": "far/m" })));
    assert_eq!(asked(), [1, 3, 1, 1], "the token of the login was sent");
    let body = json!({ "prompt": "the secret prompt", "model": "google/g" });
    let answer = scene.post("/v1/gemini/generate", &body);
    assert!(answer.contains("the secret answer") && asked() == [2, 3, 1, 1], "{answer} {:?}", asked());
    let body = json!({ "prompt": "the secret prompt", "model": "quoting/m" });
    let refused = scene.post("/v1/gemini/generate", &body);
    assert!(refused.contains("***") && asked() == [2, 3, 2, 1], "{refused} {:?}", asked());
    assert!(!refused.contains("sk-first-key"), "{refused}");
}

#[test]
fn no_key_token_prompt_or_answer_is_in_anything_that_the_gateway_writes() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    scene.sign_in();
    ask_all(&scene, &gateway);
    let wrong = [("authorization", "Bearer the-user-tokem")];
    http::read(http::modern_with(gateway.url(), &wrong, "tools/list", json!({})));
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let log = gateway.wait();
    assert!(log.contains("[explore] → google/g: Find code..."), "the log was read: {log}");
    let written = written_below(scene.yard.folder());
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
