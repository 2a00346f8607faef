//! The order of a call: hooks, credential, request, other credential, other attempt, hooks.
//!
//! Each arrow of the three diagrams that the pack follows, and the test that fails without it (in this file where no
//! other one is named):
//!
//! | diagram | arrow | test |
//! |---|---|---|
//! | call | arguments → pre-model hook | `hooks_before_a_call_change_it_before_anything_else_happens` |
//! | call | pre-model hook → refused | `a_hook_that_blocks_stops_a_call_before_anything_is_sent` |
//! | call | pre-model hook → `agent_context` | `agents::a_hook_that_changes_the_agent_changes_the_log_line_and_the_fallback` |
//! | call | `agent_context` → auth mode | `the_agent_is_logged_before_a_credential_is_chosen` |
//! | call | auth mode → login, else key | `the_login_is_used_before_the_key` |
//! | call | auth mode → semaphore | `the_credential_is_chosen_before_the_wait_for_the_semaphore` |
//! | call | semaphore → window | `limits::the_place_at_a_model_is_held_while_the_window_is_full` |
//! | call | window → request | `limits::at_most_30_requests_start_in_any_minute_over_all_models` |
//! | call | answer → post-model hook | `hooks_after_a_call_see_the_answer_and_may_change_it` |
//! | failures | 429 → other credential, cool-down of 300 s → login | `too_many_requests_move_to_the_key_at_once_and_the_login_rests_for_300_seconds` |
//! | failures | 429 without another credential → error | `too_many_requests_without_another_credential_are_an_error_without_a_wait` |
//! | failures | 5xx → wait of 10 s → second attempt → error | `a_failure_of_the_server_is_tried_twice_with_one_wait_of_ten_seconds` |
//! | failures | other 4xx → error | `other_refusals_are_errors_at_once` |
//! | agents | `agent_context` → log line | `agents::a_call_is_logged_with_its_agent_model_and_description` |
//! | agents | no response → fallback by agent type | `agents::an_agent_of_some_types_gets_the_answer_of_the_fallback` |
//! | agents | no response, other agent types → error | `agents::other_agents_and_mistakes_in_the_request_have_no_fallback` |

use futures_util::future::join_all;

use super::agents::Log;
use super::*;
use crate::conversation::{Image, Message, Part};

#[tokio::test(start_paused = true)]
async fn the_agent_is_logged_before_a_credential_is_chosen() {
    let log = Log::default();
    let _guard = log.listen();
    let mut keys = config(json!({}));
    keys["providers"]["google"]["login"] = "another".into();
    keys["providers"]["google"]["key"] = "".into();
    let bench = Bench::with(keys, [], |_, input| Verdict::Continue(input));
    let error = bench.ask(gemini(json!({ "agent_context": explore() }))).await.unwrap_err().to_string();
    assert!(error.contains("has no usable credentials"), "{error}");
    assert!(log.text().contains("[explore] → gemini-3-flash: Find authentication code..."), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn the_credential_is_chosen_before_the_wait_for_the_semaphore() {
    let bench = Bench::new(vec![Does::Say("late", Duration::from_mins(1)); 4]);
    let calls = join_all((0..4).map(|_| bench.ask(gemini(json!({ "model": "gemini-3-pro-high" })))));
    assert!(tokio::time::timeout(Duration::from_secs(1), calls).await.is_err());
    assert_eq!(bench.script.sent().len(), 3, "the semaphore has 3 places");
    assert_eq!(bench.login.uses(), 4, "the call that waits has its credential already");
}

#[tokio::test(start_paused = true)]
async fn the_login_is_used_before_the_key() {
    let bench = Bench::new([say("hello")]);
    let answered = bench.ask(gemini(json!({}))).await.unwrap();
    assert_eq!((answered.reply.text.as_str(), answered.auth), ("hello", "login"));
    let sent = bench.script.sent();
    assert_eq!(sent[0].key(), "Bearer login-token");
    assert!(
        sent[0].url.ends_with("/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse"),
        "{}",
        sent[0].url
    );
    assert_eq!(sent[0].body["generationConfig"], json!({ "maxOutputTokens": 8192, "temperature": 0.7 }));
}

#[tokio::test(start_paused = true)]
async fn the_login_is_used_before_the_key_at_every_kind_of_provider() {
    for (kind, key_header, key) in [
        ("gemini", "x-goog-api-key", "secret-key"),
        ("openai", "authorization", "Bearer secret-key"),
        ("anthropic", "x-api-key", "secret-key"),
        ("compatible", "authorization", "Bearer secret-key"),
    ] {
        let provider =
            json!({ "kind": kind, "base_url": "http://p/v1", "login": "google", "key": "secret-key" });
        let bench = Bench::with(
            config(json!({ "providers": { "it": provider } })),
            [Does::Fail(429), Does::Fail(429)],
            |_, input| Verdict::Continue(input),
        );
        let mut invocation = gemini(json!({ "model": "it/m" }));
        invocation.kinds = &[];
        assert!(bench.ask(invocation).await.is_err(), "{kind}");
        let sent = bench.script.sent();
        let has = |at: usize, name: &str, value: &str| {
            sent[at].headers.contains(&(name.to_owned(), value.to_owned()))
        };
        assert!(has(0, "authorization", "Bearer login-token"), "{kind}: {sent:?}");
        assert!(!format!("{:?}", sent[0].headers).contains("secret-key"), "{kind}: {sent:?}");
        assert!(has(1, key_header, key), "{kind}: {sent:?}");
        assert!(!format!("{:?}", sent[1].headers).contains("login-token"), "{kind}: {sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_move_to_the_key_at_once_and_the_login_rests_for_300_seconds() {
    let bench = Bench::new([Does::Fail(429)]);
    bench.ask(gemini(json!({}))).await.unwrap();
    sleep(Duration::from_secs(299)).await;
    bench.ask(gemini(json!({}))).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    bench.ask(gemini(json!({}))).await.unwrap();
    let keys: Vec<(u64, String)> =
        bench.script.sent().iter().map(|sent| (sent.at.as_secs(), sent.key().to_owned())).collect();
    let (login, key) = ("Bearer login-token".to_owned(), "secret-key".to_owned());
    assert_eq!(keys, [(0, login.clone()), (0, key.clone()), (299, key), (301, login)]);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_without_another_credential_are_an_error_without_a_wait() {
    let bench = Bench::new([Does::Fail(429), Does::Fail(429)]);
    let error = bench.ask(gemini(json!({}))).await.unwrap_err().to_string();
    assert!(error.contains("`gemini-3-flash` of provider `google` answered with status 429"), "{error}");
    assert_eq!(bench.script.sent().len(), 2);
    assert_eq!(bench.script.begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_server_is_tried_twice_with_one_wait_of_ten_seconds() {
    let bench = Bench::new([Does::Fail(500), say("at last")]);
    assert_eq!(bench.ask(gemini(json!({}))).await.unwrap().reply.text, "at last");
    let at: Vec<u64> = bench.script.sent().iter().map(|sent| sent.at.as_secs()).collect();
    assert_eq!(at, [0, 10]);

    for status in [500, 503, 529] {
        let bench = Bench::new([Does::Fail(status), Does::Fail(status)]);
        let error = bench.ask(gemini(json!({}))).await.unwrap_err().to_string();
        assert!(error.contains(&format!("status {status}")), "{error}");
        assert_eq!(bench.script.sent().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn other_refusals_are_errors_at_once() {
    for status in [400, 401, 403, 404, 422] {
        let bench = Bench::new([Does::Fail(status)]);
        let error = bench.ask(gemini(json!({}))).await.unwrap_err().to_string();
        assert!(error.contains(&format!("status {status}")), "{error}");
        assert_eq!(bench.script.sent().len(), 1, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_twice_once_a_part_of_the_answer_was_shown() {
    let mut events = gemini_events("half");
    events.push(json!({ "error": { "status": "UNAVAILABLE", "message": "gone" } }));
    for step in [Does::Stream(events), Does::Cut(gemini_events("half"))] {
        let bench = Bench::new([step]);
        assert!(bench.ask(gemini(json!({}))).await.is_err());
        assert_eq!(bench.script.sent().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_before_a_call_change_it_before_anything_else_happens() {
    let bench = Bench::with(config(json!({})), [], |point, mut input| {
        if point == "pre_model_invoke" {
            input["model"] = "gemini-3-pro-high".into();
            input["prompt"] = "changed".into();
            input["thinking_budget"] = 2000.into();
        }
        Verdict::Continue(input)
    });
    let answered = bench.ask(gemini(json!({}))).await.unwrap();
    assert_eq!(answered.model, "gemini-3-pro-high");
    let sent = &bench.script.sent()[0];
    assert!(sent.url.contains("gemini-3-pro-high"), "{}", sent.url);
    assert_eq!(sent.body["contents"][0]["parts"][0]["text"], "changed");
    assert_eq!(sent.body["generationConfig"]["thinkingConfig"]["thinkingBudget"], 2000);
}

/// A conversation as `create_message` asks it.
fn conversation() -> Invocation {
    let image = |data: &str| Part::Image(Image { mime_type: "image/png".into(), data: data.into() });
    let text = |text: &str| Part::Text(text.into());
    let mut invocation = gemini(json!({}));
    invocation.turn.messages = vec![
        Message::User(vec![text("token one"), image("AAAA")]),
        Message::Assistant("token two".into()),
        Message::User(vec![image("BBBB"), text("token three"), text("token four")]),
    ];
    invocation
}

/// What the provider got: the parts of each message.
fn sent_parts(bench: &Bench) -> Value {
    let contents = bench.script.sent()[0].body["contents"].clone();
    contents.as_array().unwrap().iter().map(|content| content["parts"].clone()).collect()
}

fn image_part(data: &str) -> Value {
    json!({ "inlineData": { "mimeType": "image/png", "data": data } })
}

#[tokio::test(start_paused = true)]
async fn hooks_before_a_call_see_and_change_every_text_of_a_conversation() {
    let bench = Bench::with(config(json!({})), [], |point, input| {
        if point != "pre_model_invoke" {
            return Verdict::Continue(input);
        }
        for word in ["one", "two", "three", "four"] {
            assert!(input["messages"].to_string().contains(&format!("token {word}")), "{input}");
        }
        assert!(!input.to_string().contains("AAAA"), "bytes of images are not for hooks: {input}");
        Verdict::Continue(serde_json::from_str(&input.to_string().replace("token", "[redacted]")).unwrap())
    });
    bench.ask(conversation()).await.unwrap();
    let expected = json!([
        [{ "text": "[redacted] one" }, image_part("AAAA")],
        [{ "text": "[redacted] two" }],
        [image_part("BBBB"), { "text": "[redacted] three" }, { "text": "[redacted] four" }],
    ]);
    assert_eq!(sent_parts(&bench), expected);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_knows_only_the_prompt_changes_it_in_a_conversation() {
    let bench = Bench::with(config(json!({})), [], |_, mut input| {
        assert_eq!(input["prompt"], "token three", "{input}");
        input["prompt"] = "changed".into();
        // Another hook has removed a message.
        input["messages"].as_array_mut().unwrap().remove(0);
        Verdict::Continue(input)
    });
    let mut invocation = conversation();
    bench.models.prepare(&mut invocation).await.unwrap();
    let texts: Vec<String> = invocation.turn.messages.iter().map(|message| format!("{message:?}")).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[1].contains("BBBB") && texts[1].contains("changed") && texts[1].contains("token four"));
    assert!(!texts.concat().contains("token three"), "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_prompt_that_a_hook_removes_with_its_message_overwrites_no_other() {
    let bench = Bench::with(config(json!({})), [], |_, mut input| {
        input["prompt"] = "[empty message]".into();
        input["messages"].as_array_mut().unwrap().pop();
        Verdict::Continue(input)
    });
    let mut invocation = gemini(json!({}));
    invocation.turn.messages =
        vec![Message::User(vec![Part::Text("hello".into())]), Message::User(vec![Part::Text(" ".into())])];
    bench.models.prepare(&mut invocation).await.unwrap();
    assert_eq!((invocation.turn.messages.len(), invocation.prompt()), (1, Some("hello")));
}

#[tokio::test(start_paused = true)]
async fn a_single_prompt_is_shown_once_and_a_hook_cannot_invent_images() {
    let bench = Bench::with(config(json!({})), [], |_, input| {
        assert_eq!(input.get("messages"), None, "{input}");
        Verdict::Continue(input)
    });
    bench.models.prepare(&mut gemini(json!({}))).await.unwrap();
    let bench = Bench::with(config(json!({})), [], |_, mut input| {
        input["messages"][0]["content"][1]["image"] = 7.into();
        Verdict::Continue(input)
    });
    let error = bench.models.prepare(&mut conversation()).await.unwrap_err().to_string();
    assert!(
        error.starts_with("a hook for `pre_model_invoke` returned an image that it did not get: 7"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_blocks_stops_a_call_before_anything_is_sent() {
    let bench = Bench::with(config(json!({})), [], |_, _| Verdict::Block("too dear".into()));
    let error = bench.ask(gemini(json!({}))).await.unwrap_err().to_string();
    assert_eq!(error, "a hook refused this call of a model: too dear");
    assert_eq!(bench.script.sent().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn hooks_after_a_call_see_the_answer_and_may_change_it() {
    let bench = Bench::with(config(json!({})), [say("hello")], |point, mut input| {
        if point == "post_model_invoke" {
            assert_eq!(input["usage"]["output_tokens"], 25, "{input}");
            input["text"] = format!("{} world", input["text"].as_str().unwrap()).into();
        }
        Verdict::Continue(input)
    });
    assert_eq!(bench.ask(gemini(json!({}))).await.unwrap().reply.text, "hello world");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_sends_nothing_fails_after_the_configured_time() {
    let steps = [Does::Say("late", Duration::from_mins(10))];
    let bench = Bench::with(config(json!({ "timeout": 7 })), steps, |_, input| Verdict::Continue(input));
    let error = bench.ask(gemini(json!({}))).await.unwrap_err().to_string();
    assert!(error.contains("sent nothing for 7 s"), "{error}");
    assert_eq!(bench.script.begun.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_gives_its_place_back() {
    let bench = Bench::new([Does::Say("late", Duration::from_mins(1))]);
    let call = bench.ask(gemini(json!({})));
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    assert_eq!(bench.models.running("gemini-3-flash"), 0);
}

#[tokio::test(start_paused = true)]
async fn names_that_mean_no_model_are_refused_with_those_that_do() {
    let bench = Bench::new([]);
    let check = async |model: &str, expected: &str| {
        let error = bench.ask(gemini(json!({ "model": model }))).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{model}: {error}");
    };
    check("gemini-9", "no configured provider has a model `gemini-9`").await;
    check("gemini-9", "gemini-3-flash, gemini-3-pro-high").await;
    check("spare-model", "no configured provider has a model").await;
    assert_eq!(bench.script.sent().len(), 0);
    let answered = bench.ask(gemini(json!({ "model": "google/gemini-3-flash" }))).await.unwrap();
    assert_eq!(answered.model, "gemini-3-flash");
}
