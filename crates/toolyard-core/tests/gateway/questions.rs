//! A modern upstream that answers with questions, and legacy clients that are asked them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::time::Instant;
use toolyard_core::Gateway;
use toolyard_model::{AnswerBody, Ask, AskError, Back, BoxFuture, Handler as _, Peer, Request};
use toolyard_proto::{Method, Notification, Raw, Revision};

use crate::support::{Behaviour, Client, Double, gateway, raw};

const STATE: &str = "ö\u{1F600} \\ \"exact\" +/=";

/// Answers with `asked` for `rounds` times, and then with what it got.
fn asking(asked: Value, rounds: usize) -> Behaviour {
    let round = AtomicUsize::new(0);
    Arc::new(move |request, _| {
        let is_question = round.fetch_add(1, Ordering::SeqCst) < rounds;
        let result = if is_question {
            asked.clone()
        } else {
            let text = request.params.as_str().to_owned();
            json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
        };
        Box::pin(async move { Ok(AnswerBody::Whole(raw(result), Revision::NEWEST)) })
    })
}

fn two_questions() -> Value {
    let ask = |method: &str| json!({ "method": method, "params": {} });
    let requests = json!({ "a b": ask("elicitation/create"), "c": ask("roots/list") });
    json!({ "resultType": "input_required", "requestState": STATE, "inputRequests": requests })
}

fn before(behaviour: Behaviour) -> (Arc<Double>, Gateway) {
    let double = Double::with(Revision::NEWEST, &["t"], behaviour);
    let gateway = gateway(&[("a", &double)]);
    (double, gateway)
}

async fn legacy_client(gateway: &Gateway) -> Client {
    let mut client = Client::new(gateway, Revision::V2025_11_25, "a");
    let roots = json!({ "listChanged": true });
    client.declare(json!({ "roots": roots, "elicitation": {}, "sampling": {}, "tasks": { "list": {} } }));
    client.tools().await;
    client
}

/// Answers a question only once two have been put.
struct Both(Arc<Barrier>);

impl Back for Both {
    fn notify(&self, _: Notification) {}

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        let barrier = self.0.clone();
        Box::pin(async move {
            barrier.wait().await;
            Ok(raw(json!({ "to": ask.method.as_str() })))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn all_questions_are_put_at_once_and_the_answers_go_back_with_the_very_state() {
    let (double, gateway) = before(asking(two_questions(), 1));
    let client = legacy_client(&gateway).await;
    let request = Request {
        params: raw(json!({ "name": "t", "arguments": { "x": 1.0 } })).into(),
        ..client.request("tools/call")
    };
    let call = gateway.handle(request, Peer::new(Arc::new(Both(Arc::new(Barrier::new(2))))));
    let answered = tokio::time::timeout(Duration::from_secs(5), call).await.expect("both are asked");
    assert!(matches!(answered, Ok(AnswerBody::Whole(..))));
    let seen: Vec<Value> = double.seen.lock().iter().map(|(_, params)| params.read().unwrap()).collect();
    assert_eq!(seen.len(), 2);
    let answers = json!({ "a b": { "to": "elicitation/create" }, "c": { "to": "roots/list" } });
    assert_eq!((&seen[1]["requestState"], &seen[1]["inputResponses"]), (&json!(STATE), &answers));
    assert_eq!((&seen[1]["name"], &seen[1]["arguments"]), (&seen[0]["name"], &seen[0]["arguments"]));
    let capabilities = &seen[0]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(capabilities, &json!({ "roots": {}, "elicitation": {}, "sampling": {} }), "in today's words");
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_asks_without_end_is_left_after_eight_rounds() {
    let (double, gateway) = before(asking(two_questions(), usize::MAX));
    let client = legacy_client(&gateway).await;
    *client.inbox.reply.lock() = Some(json!({ "action": "accept" }));
    let result = client.call("t", json!({})).await.unwrap();
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("8 times"), "{result}");
    assert_eq!(double.seen.lock().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_state_without_a_question_is_brought_back_after_a_pause() {
    let shed = json!({ "resultType": "input_required", "requestState": "later" });
    let (double, gateway) = before(asking(shed, 3));
    let client = legacy_client(&gateway).await;
    let begun = Instant::now();
    let result = client.call("t", json!({})).await.unwrap();
    assert!(result.get("isError").is_none(), "{result}");
    assert_eq!((begun.elapsed(), double.seen.lock().len()), (Duration::from_millis(750), 4));
}

/// A client that cannot or will not answer.
struct Fails(fn() -> AskError);

impl Back for Fails {
    fn notify(&self, _: Notification) {}

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        let error = (self.0)();
        Box::pin(async { Err(error) })
    }
}

async fn check_unanswered(method: &str, error: fn() -> AskError, expected: Result<Value, &str>) {
    let requests = json!({ "q": { "method": method, "params": {} } });
    let asked = json!({ "resultType": "input_required", "inputRequests": requests });
    let (double, gateway) = before(asking(asked, 1));
    let client = legacy_client(&gateway).await;
    let request = Request { params: raw(json!({ "name": "t" })).into(), ..client.request("tools/call") };
    let answer = gateway.handle(request, Peer::new(Arc::new(Fails(error)))).await.unwrap();
    let AnswerBody::Whole(result, _) = answer else { panic!("nothing streams here") };
    let seen = double.seen.lock();
    match expected {
        Ok(response) => {
            let sent: Value = seen[1].1.member("inputResponses").unwrap().read().unwrap();
            assert_eq!(sent, json!({ "q": response }), "{method}");
            assert!(seen[1].1.member("requestState").is_none(), "none was given, so none is brought back");
        }
        Err(why) => {
            assert_eq!(seen.len(), 1, "{method}: the upstream is not called again");
            assert!(
                result.as_str().contains("isError") && result.as_str().contains(why),
                "{}",
                result.as_str()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_in_answer_to_a_form_is_a_cancel_and_to_anything_else_the_end_of_the_call() {
    let refused = || AskError::Reported(raw(json!({ "code": -1, "message": "no" })));
    let cancelled = || Ok(json!({ "action": "cancel" }));
    check_unanswered("elicitation/create", refused, cancelled()).await;
    check_unanswered("elicitation/create", || AskError::Timeout, cancelled()).await;
    check_unanswered("sampling/createMessage", refused, Err("needs `sampling/createMessage`")).await;
    check_unanswered("roots/list", || AskError::Timeout, Err("did not answer in time")).await;
    check_unanswered("roots/list", || AskError::Gone, Err("disconnected")).await;
}

#[tokio::test(start_paused = true)]
async fn a_sessions_log_level_is_stamped_on_every_request_to_an_upstream_that_keeps_none() {
    let (double, gateway) = before(asking(json!({}), 0));
    let client = legacy_client(&gateway).await;
    client.set_level("warning");
    client.call("t", json!({})).await.unwrap();
    let seen = double.seen.lock();
    let (method, params) = &seen[0];
    assert_eq!(*method, Method::TOOLS_CALL);
    let meta: Value = params.member("_meta").unwrap().read().unwrap();
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "warning");
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_is_not_asked_what_it_did_not_declare() {
    let double = Double::with(Revision::NEWEST, &["t"], asking(two_questions(), 9));
    let gateway = gateway(&[("a", &double)]);
    for (declared, expected) in [
        (json!({}), Some("did not declare the capability `elicitation`")),
        (json!({ "elicitation": {} }), Some("did not declare the capability `roots`")),
        (json!({ "elicitation": {}, "roots": {} }), None),
    ] {
        let mut client = Client::new(&gateway, Revision::NEWEST, "");
        client.declare(declared.clone());
        client.tools().await;
        let answer = client
            .call("a__t", json!({}))
            .await
            .map_or_else(|error| error.message(), |answer| answer.to_string());
        match expected {
            Some(expected) => {
                assert!(answer.contains(expected) && !answer.contains("inputRequests"), "{answer}");
            }
            None => assert!(answer.contains("inputRequests"), "{answer}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_of_a_kind_that_the_client_does_not_know_is_held_back() {
    for (kind, declared, passes) in [
        ("complete", json!({}), true),
        ("later", json!({}), false),
        ("later", json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }), false),
        ("later", json!({ "extensions": { "example/later": {} } }), true),
        ("task", json!({}), false),
    ] {
        let result = json!({ "resultType": kind, "content": [], "taskId": "t" });
        let behaviour: Behaviour = Arc::new(move |_, _| {
            let result = raw(result.clone());
            Box::pin(async move { Ok(AnswerBody::Whole(result, Revision::NEWEST)) })
        });
        let gateway = gateway(&[("a", &Double::with(Revision::NEWEST, &["t"], behaviour))]);
        for revision in [Revision::NEWEST, Revision::V2025_11_25] {
            let mut client = Client::new(&gateway, revision, "");
            client.declare(declared.clone());
            client.tools().await;
            let answer = client.call("a__t", json!({})).await.unwrap();
            // Tasks for clients that do not know them are waited for.
            if revision == Revision::NEWEST || kind != "task" {
                assert_eq!(answer["isError"].is_null(), passes, "{kind} {declared}: {answer}");
                let text = answer["content"].to_string();
                assert!(passes || text.contains(&format!("unknown type `{kind}`")), "{text}");
            }
        }
    }
}
