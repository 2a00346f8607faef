//! What providers do wrong, for each kind of provider: an error that names the provider and the fault, in time.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::answers::{KINDS, config, hello};
use crate::client::Client;
use crate::provider::{Provider, Step, event, head};

/// The error of a call to a provider with this script, for each kind.
async fn check(expected: &str, script: impl Fn(&str) -> Vec<Step>) {
    for kind in KINDS {
        let provider = Provider::new(script(kind)).await;
        let mut keys = config(kind, &provider.url);
        if script(kind).iter().any(|step| matches!(step, Step::Hang)) {
            keys["timeout"] = 1.into();
        }
        let mut client = Client::new(keys).await;
        let result = client.call("ask_model", json!({ "prompt": "Hi" })).await;
        assert_eq!(result["isError"], true, "{kind}: {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("`m` of provider `it` "), "{kind}: {text}");
        assert!(text.contains(expected), "{kind}: {text} lacks {expected}");
        assert!(!text.contains("the-key"), "{kind}: {text}");
        assert_eq!(provider.asked().len(), 1, "{kind}");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_an_error() {
    check("ended its answer too early", |kind| {
        let mut events = hello(kind);
        let last = if kind == "compatible" { 2 } else { 1 };
        events.truncate(events.len() - last);
        [head(200, "")].into_iter().chain(events.iter().map(event)).collect()
    })
    .await;
}

#[tokio::test]
async fn events_that_are_not_json_are_an_error() {
    check("sent something that is not its protocol: {oops", |kind| {
        vec![head(200, ""), event(&hello(kind)[0]), Step::Send(b"data: {oops\n\n".to_vec())]
    })
    .await;
}

#[tokio::test]
async fn a_page_instead_of_events_is_an_error() {
    check("sent something that is not its protocol: the line `<html>", |_| {
        vec![head(200, ""), Step::Send(b"<html>\nnothing here\n".to_vec())]
    })
    .await;
}

#[tokio::test]
async fn too_many_requests_are_an_error_with_the_time_to_wait() {
    check("answered with status 429: slow down ***\nHint: try again in 17 s", |_| {
        let body = json!({ "error": { "message": "slow down the-key" } }).to_string();
        vec![head(429, "retry-after: 17\r\n"), Step::Send(body.into_bytes())]
    })
    .await;
}

#[tokio::test]
async fn too_many_requests_may_come_with_a_date_that_counts_from_the_date_of_the_answer() {
    check("answered with status 429: slow down\nHint: try again in 90 s", |_| {
        let dates = "date: Wed, 18 Nov 2026 10:00:00 GMT\r\nretry-after: Wed, 18 Nov 2026 10:01:30 GMT\r\n";
        vec![head(429, dates), Step::Send(b"slow down".to_vec())]
    })
    .await;
}

#[tokio::test]
async fn a_server_that_fails_is_asked_twice_with_a_wait_of_ten_seconds() {
    // All at the same time, since each of them waits.
    let cases = KINDS.into_iter().flat_map(|kind| [(kind, 500_u16), (kind, 529)]);
    let all = cases.map(|(kind, status)| async move {
        let body = json!({ "error": { "message": "out of order the-key" } }).to_string();
        let provider = Provider::new(vec![head(status, ""), Step::Send(body.into_bytes())]).await;
        let mut client = Client::new(config(kind, &provider.url)).await;
        let begun = Instant::now();
        let result = client.call("ask_model", json!({ "prompt": "Hi" })).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        let expected = format!("`m` of provider `it` answered with status {status}: out of order ***");
        assert!(text.starts_with(&expected), "{kind}: {text}");
        assert_eq!(provider.asked().len(), 2, "{kind} {status}");
        assert!(begun.elapsed() >= Duration::from_secs(10), "{kind} {status}: {:?}", begun.elapsed());
    });
    join_all(all).await;
}

#[tokio::test]
async fn a_refused_key_is_an_error_that_names_the_section() {
    check("check the key or the login in [packs.models.providers.it]", |_| {
        vec![head(401, ""), Step::Send(b"no".to_vec())]
    })
    .await;
}

#[tokio::test]
async fn a_provider_that_stops_in_the_middle_is_given_up_in_time() {
    check("sent nothing for 1 s", |kind| vec![head(200, ""), event(&hello(kind)[0]), Step::Hang]).await;
}

#[tokio::test]
async fn an_event_of_ten_megabytes_is_refused() {
    check("sent an answer of more than", |_| {
        let megabyte = vec![b'x'; 1 << 20];
        let mut script = vec![head(200, ""), Step::Send(b"data: ".to_vec())];
        script.extend(vec![Step::Send(megabyte); 10]);
        script
    })
    .await;
}

#[tokio::test]
async fn an_answer_of_more_than_32_megabytes_in_small_events_is_refused() {
    check("sent an answer of more than 33554432 bytes", |kind| {
        // An event of a megabyte that adds nothing to the answer.
        let mut padded = hello(kind)[0].clone();
        padded["padding"] = "x".repeat(1 << 20).into();
        let mut script = vec![head(200, "")];
        script.extend(vec![event(&padded); 33]);
        script
    })
    .await;
}

#[tokio::test]
async fn a_refusal_is_read_only_in_part() {
    check("answered with status 400: ", |_| {
        let mut script = vec![head(400, "")];
        // It never ends; reading all of it would take until the timeout.
        script.extend(vec![Step::Send(vec![b'x'; 64 << 10]); 2]);
        script.push(Step::Hang);
        script
    })
    .await;
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_is_an_error() {
    for kind in KINDS {
        let mut client = Client::new(config(kind, "http://127.0.0.1:1/v1")).await;
        let result = client.call("ask_model", json!({ "prompt": "Hi" })).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("cannot be reached") && text.contains("base_url"), "{kind}: {text}");
    }
}

#[tokio::test]
async fn a_slow_answer_is_complete_as_long_as_bytes_come() {
    for kind in KINDS {
        let mut script = vec![head(200, "")];
        let events: Vec<String> = hello(kind).iter().map(|event| format!("data: {event}\n\n")).collect();
        let events = events.concat();
        for piece in events.as_bytes().chunks(events.len() / 6 + 1) {
            script.extend([Step::Send(piece.to_vec()), Step::Wait(Duration::from_millis(50))]);
        }
        let provider = Provider::new(script).await;
        let mut client = Client::new(config(kind, &provider.url)).await;
        let result = client.call("ask_model", json!({ "prompt": "Hi" })).await;
        assert_eq!(result["content"][0]["text"], "Hello", "{kind}: {result}");
    }
}
