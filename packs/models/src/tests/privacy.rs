//! Neither keys nor prompts nor answers are written anywhere.

use std::fmt::Write as _;

use super::agents::Log;
use super::*;

fn files_below(folder: &std::path::Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(std::fs::read(path).unwrap());
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn no_key_token_prompt_or_answer_is_in_a_log_a_file_or_an_error() {
    let log = Log::default();
    let _guard = log.listen();
    let leak = json!({ "error": { "message": "bad key login-token of account header-secret" } });
    let mut seen = String::new();
    for steps in [
        vec![say("the secret answer")],
        vec![Does::Fail(429), say("the secret answer")],
        vec![Does::Fail(500), Does::Fail(500)],
        vec![Does::Stream(vec![leak])],
        vec![Does::Cut(gemini_events("the secret answer"))],
    ] {
        let mut keys = config(json!({}));
        keys["providers"]["google"]["headers"] = json!({ "x-account": "header-secret", "x-empty": "" });
        let bench = Bench::with(keys, steps, |_, input| Verdict::Continue(input));
        let result = bench.ask(gemini(json!({ "agent_context": explore() }))).await;
        seen.push_str(&result.err().map(|error| error.to_string()).unwrap_or_default());
        let _ = write!(seen, "{:?}", bench.models.config);
        for file in files_below(bench.folder.path()) {
            seen.push_str(&String::from_utf8_lossy(&file));
        }
    }
    seen.push_str(&log.text());
    assert!(seen.contains("[explore]"), "the log was read");
    assert!(seen.contains("bad key *** of account ***"), "the provider's message was read: {seen}");
    for secret in ["secret-key", "login-token", "header-secret", "the secret prompt", "the secret answer"] {
        assert!(!seen.contains(secret), "`{secret}` was written");
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_shows_prompts_if_the_config_asks_for_it() {
    let log = Log::default();
    let _guard = log.listen();
    let bench = Bench::with(config(json!({ "log_prompts": true })), [], |_, input| Verdict::Continue(input));
    bench.ask(gemini(json!({}))).await.unwrap();
    assert!(log.text().contains("[direct] → gemini-3-flash: the secret prompt..."), "{}", log.text());
}
