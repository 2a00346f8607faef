//! Calls that are sent again, and calls that go to another tool.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolyard_core::{ProfilePlan, RetryPlan, ToolRule, ToolSettings};
use toolyard_model::answer::RelayError;
use toolyard_model::{AnswerBody, Handler, Peer, Relay, RelayKind, Request};
use toolyard_proto::{CallError, Method, Retry, Revision};

use crate::support::{Behaviour, Client, Double, raw, start};

const NEW: Revision = Revision::NEWEST;

type Failures = Arc<Mutex<VecDeque<CallError>>>;

/// Fails with each of these once, then answers; keeps when it was called.
fn failing(failures: Vec<CallError>) -> (Behaviour, Arc<Mutex<Vec<Instant>>>) {
    let (failures, times): (Failures, _) = (Arc::new(Mutex::new(failures.into())), Arc::default());
    let called: Arc<Mutex<Vec<Instant>>> = Arc::clone(&times);
    let behaviour: Behaviour = Arc::new(move |request, _| {
        // After a failure the upstream is asked whether it is still there.
        if request.method != Method::TOOLS_CALL {
            return Box::pin(async { Ok(AnswerBody::ours(raw(json!({})))) });
        }
        called.lock().push(Instant::now());
        let failure = failures.lock().pop_front();
        Box::pin(async move {
            match failure {
                Some(error) => Err(error),
                None => Ok(AnswerBody::ours(raw(json!({ "content": [{ "type": "text", "text": "done" }] })))),
            }
        })
    });
    (behaviour, times)
}

fn rule(settings: ToolSettings) -> Vec<ToolRule> {
    vec![ToolRule { pattern: "a:*".into(), settings, ..ToolRule::default() }]
}

fn retry(attempts: u32) -> ToolSettings {
    let plan = RetryPlan { attempts, wait: Duration::from_secs(2), max_wait: Duration::from_secs(20) };
    ToolSettings { retry: Some(plan), ..ToolSettings::default() }
}

/// Calls a tool that fails like this; returns the answer and the pauses between attempts, in seconds.
async fn check(settings: ToolSettings, annotations: Value, failures: Vec<CallError>) -> (Value, Vec<f64>) {
    let (behaviour, times) = failing(failures);
    let double = Double::with(NEW, &["t"], behaviour);
    double.tools.lock()[0]["annotations"] = annotations;
    let gateway = start(&[("a", &double)], |plan| {
        plan.calls.tools = rule(settings);
        plan.upstreams[0].policy.timeouts.idle = Duration::from_mins(1);
    });
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let answer = client.call("a__t", json!({})).await.unwrap_or_default();
    let times = times.lock();
    let pauses = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    (answer, pauses)
}

fn refused() -> CallError {
    CallError::unavailable("it is not there")
}

fn lost() -> CallError {
    CallError::lost("it was lost")
}

fn is_about(pauses: &[f64], expected: &[f64]) -> bool {
    let close = |(pause, expected): (&f64, &f64)| (pause - expected).abs() <= expected * 0.11;
    pauses.len() == expected.len() && pauses.iter().zip(expected).all(close)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_carried_out_is_sent_again_after_growing_waits() {
    let (answer, pauses) = check(retry(4), json!({}), vec![refused(), refused(), refused()]).await;
    assert!(answer.get("isError").is_none());
    assert!(is_about(&pauses, &[2.0, 4.0, 8.0]), "{pauses:?}");
    let (answer, pauses) = check(retry(2), json!({}), vec![refused(), refused(), refused()]).await;
    assert_eq!((answer["isError"].as_bool(), pauses.len()), (Some(true), 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_been_carried_out_is_repeated_only_if_that_does_no_harm() {
    let idempotent = |flag| ToolSettings { idempotent: Some(flag), ..retry(3) };
    let trusted = || ToolSettings { trust_annotations: Some(true), ..retry(3) };
    let safe = json!({ "idempotentHint": true });
    for (settings, annotations, attempts) in [
        (retry(3), json!({}), 1),
        (retry(3), safe.clone(), 1),
        (idempotent(true), json!({}), 2),
        (trusted(), safe.clone(), 2),
        (trusted(), json!({ "readOnlyHint": true }), 2),
        (trusted(), json!({ "readOnlyHint": false }), 1),
        (ToolSettings { idempotent: Some(false), ..trusted() }, safe.clone(), 1),
    ] {
        let (_, pauses) = check(settings.clone(), annotations.clone(), vec![lost()]).await;
        assert_eq!(pauses.len() + 1, attempts, "{settings:?} {annotations}");
    }
    let reported = CallError::reported(raw(json!({ "code": -32603, "message": "no" })));
    let (_, pauses) = check(idempotent(true), json!({}), vec![reported]).await;
    assert_eq!(pauses, [] as [f64; 0], "what a tool reports is an answer");
}

#[tokio::test(start_paused = true)]
async fn the_upstream_and_the_deadline_decide_how_long_to_wait() {
    let busy =
        |seconds| CallError::turned_away(Retry::Always, "busy").retry_after(Duration::from_secs(seconds));
    let (_, pauses) = check(retry(2), json!({}), vec![busy(15)]).await;
    assert_eq!(pauses, [15.0]);
    let (answer, pauses) = check(retry(2), json!({}), vec![busy(50)]).await;
    assert_eq!((answer["isError"].as_bool(), pauses.len()), (Some(true), 0), "longer than retries may wait");
    let short = ToolSettings { timeout: Some(Duration::from_secs(10)), ..retry(2) };
    let (answer, pauses) = check(short, json!({}), vec![busy(15)]).await;
    assert_eq!((&answer["_meta"]["dev.toolyard/error"]["kind"], pauses.len()), (&json!("turned-away"), 0));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_is_replaced_by_its_fallback_and_the_answer_states_it() {
    let settings = |name: &str| ToolSettings { fallback: Some(name.to_owned()), ..ToolSettings::default() };
    let (behaviour, _) = failing(vec![refused(), lost(), refused(), refused()]);
    let (first, second) = (Double::with(NEW, &["t"], behaviour), Double::new(NEW, &["other"]));
    let rules = |name: &str| rule(settings(name));
    let gateway = start(&[("a", &first), ("b", &second)], |plan| plan.calls.tools = rules("b:other"));
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let answer = client.call("a__t", json!({ "x": 1 })).await.unwrap();
    assert_eq!(answer["_meta"]["dev.toolyard/fallback"]["tool"], "b:other");
    let stated = answer["content"][1]["text"].as_str().unwrap();
    assert!(stated.starts_with("[fallback] answered by b:other, because "), "{stated}");
    let seen = second.seen.lock()[0].1.read::<Value>().unwrap();
    assert_eq!((&seen["name"], &seen["arguments"]), (&json!("other"), &json!({ "x": 1 })));
    let answer = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(answer["_meta"]["dev.toolyard/error"]["kind"], "lost", "it may have been carried out");
    let gateway = start(&[("a", &first)], |plan| plan.calls.tools = rules("b:other"));
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let answer = client.call("a__t", json!({})).await.unwrap();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("its fallback b:other is not available here"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_fallback_must_be_in_the_profile_of_the_client() {
    let settings = ToolSettings { fallback: Some("b:t".to_owned()), ..ToolSettings::default() };
    for (names, view, is_there) in
        [(vec!["a"], "p/p", false), (vec!["a", "b"], "p/p", true), (vec!["a"], "a", true)]
    {
        let (behaviour, _) = failing(vec![refused()]);
        let (first, second) = (Double::with(NEW, &["t"], behaviour), Double::new(NEW, &["t"]));
        let gateway = start(&[("a", &first), ("b", &second)], |plan| {
            let upstreams = Some(names.iter().map(ToString::to_string).collect());
            plan.profiles.push(ProfilePlan { name: "p".into(), upstreams, ..ProfilePlan::default() });
            plan.calls.tools = rule(settings.clone());
        });
        let client = Client::new(&gateway, NEW, view);
        client.tools().await;
        let answer = client.call(if view == "a" { "t" } else { "a__t" }, json!({})).await.unwrap();
        assert_eq!(
            answer["_meta"].get("dev.toolyard/fallback").is_some(),
            is_there,
            "{names:?} {view}: {answer}"
        );
        assert_eq!(second.seen.lock().len(), usize::from(is_there));
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_asks_is_named_and_not_asked_for() {
    let settings = ToolSettings { fallback: Some("b:t".to_owned()), ..ToolSettings::default() };
    let (behaviour, _) = failing(vec![refused()]);
    let asking: Behaviour = Arc::new(|_, _| {
        let asks = json!({ "resultType": "input_required", "inputRequests": {}, "requestState": "s" });
        Box::pin(async { Ok(AnswerBody::ours(raw(asks))) })
    });
    let (first, second) = (Double::with(NEW, &["t"], behaviour), Double::with(NEW, &["t"], asking));
    let gateway = start(&[("a", &first), ("b", &second)], |plan| plan.calls.tools = rule(settings));
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let answer = client.call("a__t", json!({})).await.unwrap().to_string();
    assert!(
        answer.contains(
            "its fallback b:t asks the user, which a fallback cannot do for this client; call b:t directly"
        ),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn fallbacks_that_lead_in_a_circle_end() {
    let (behaviour, times) = failing((0..50).map(|_| refused()).collect());
    let double = Double::with(NEW, &["t"], behaviour);
    let settings = ToolSettings { fallback: Some("a:t".to_owned()), ..ToolSettings::default() };
    let gateway = start(&[("a", &double)], |plan| plan.calls.tools = rule(settings));
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    assert_eq!(client.call("a__t", json!({})).await.unwrap()["isError"], true);
    assert_eq!(times.lock().len(), 4);
}

/// An answer that breaks off after its first piece.
struct BreaksOff(bool);

impl Body for BreaksOff {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let has_begun = std::mem::replace(&mut self.0, true);
        let piece = if has_begun { Err(lost().into()) } else { Ok(Frame::data(Bytes::from_static(b"{"))) };
        Poll::Ready(Some(piece))
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_has_begun_is_never_asked_for_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let behaviour: Behaviour = Arc::new(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(AnswerBody::Stream(Relay::new(RelayKind::Json, BreaksOff(false)))) })
    });
    let (double, spare) = (Double::with(NEW, &["t"], behaviour), Double::new(NEW, &["t"]));
    let settings = ToolSettings { idempotent: Some(true), fallback: Some("b:t".to_owned()), ..retry(5) };
    let gateway = start(&[("a", &double), ("b", &spare)], |plan| plan.calls.tools = rule(settings));
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    calls.store(0, Ordering::SeqCst);
    let params = raw(json!({ "name": "a__t", "arguments": {} })).into();
    let request = Request { params, relay: true, ..client.request("tools/call") };
    let Ok(AnswerBody::Stream(mut relay)) = gateway.handle(request, Peer::none()).await else {
        panic!("it streams")
    };
    let mut next = async || poll_fn(|cx| Pin::new(&mut relay).poll_frame(cx)).await;
    assert!(next().await.unwrap().is_ok());
    assert!(next().await.unwrap().is_err(), "the client learns that it broke off");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(spare.seen.lock().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_in_the_record() {
    let (behaviour, _) = failing(vec![refused(), refused()]);
    let double = Double::with(NEW, &["t"], behaviour);
    let gateway = start(&[("a", &double)], |plan| plan.calls.tools = rule(retry(5)));
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    client.call("a__t", json!({})).await.unwrap();
    let report = crate::api::get(&gateway, "/report").await;
    assert_eq!(report["calls"][0]["attempts"], 3);
}

#[tokio::test(start_paused = true)]
async fn after_too_many_calls_the_spare_is_used_for_the_cool_down_and_then_no_more() {
    let busy = || CallError::turned_away(Retry::Always, "too many");
    let (behaviour, times) = failing(vec![busy()]);
    let (first, spare) = (Double::with(NEW, &["t", "u"], behaviour), Double::new(NEW, &["t", "u"]));
    let settings = ToolSettings {
        fallback: Some("spare:*".to_owned()),
        cool_down: Some(Duration::from_mins(5)),
        ..ToolSettings::default()
    };
    let gateway = start(&[("a", &first), ("spare", &spare)], |plan| plan.calls.tools = rule(settings));
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let used = async |name: &str| {
        let answer = client.call(name, json!({})).await.unwrap();
        assert!(answer.get("isError").is_none(), "{answer}");
        answer["_meta"]["dev.toolyard/fallback"]["tool"].clone()
    };
    assert_eq!(used("a__t").await, "spare:t");
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(used("a__u").await, "spare:u", "all tools of the upstream cool down");
    assert_eq!(times.lock().len(), 1, "it was left alone");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(used("a__t").await, Value::Null);
    assert_eq!(times.lock().len(), 2);
}
