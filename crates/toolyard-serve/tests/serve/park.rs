//! A modern client that is asked something in the middle of its call.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_model::Keys;
use toolyard_serve::Options;

use crate::support::{Reply, World, until, world, world_with};

/// A call by a client that can be asked, with more members in its parameters.
async fn call(world: &World, name: &str, more: Value) -> Reply {
    call_as(world, name, more, json!({ "elicitation": {} })).await
}

async fn call_as(world: &World, name: &str, more: Value, capabilities: Value) -> Reply {
    let mut params = json!({ "name": name, "arguments": { "x": 1 } });
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", name)];
    world.post(&headers, &body).await
}

async fn asked(world: &World, name: &str) -> Value {
    let result = call(world, name, json!({})).await.json()["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    result
}

fn text(reply: &Reply) -> String {
    reply.json()["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

#[tokio::test]
async fn the_same_call_goes_on_when_the_client_is_back_with_the_answer() {
    let world = world().await;
    let tasks = world.scope.tasks();
    let question = asked(&world, "ask").await;
    assert_eq!(
        question["inputRequests"],
        json!({ "ask1": { "method": "elicitation/create", "params": { "message": "?" } } })
    );
    assert_eq!(world.endpoint.parked(), 1);
    let more = json!({ "inputResponses": { "ask1": { "action": "accept" }, "other": {} }, "requestState": question["requestState"] });
    assert_eq!(text(&call(&world, "ask", more).await), r#"reply {"action":"accept"}"#);
    assert_eq!(
        (world.endpoint.parked(), world.double.started.load(Ordering::SeqCst)),
        (0, 1),
        "one run of one call"
    );
    until("no task is left of it", || world.scope.tasks() <= tasks).await;
}

#[tokio::test]
async fn questions_that_come_together_are_asked_together_and_missing_answers_asked_for_again() {
    let world = world().await;
    let question = asked(&world, "ask_two").await;
    assert_eq!(question["inputRequests"].as_object().unwrap().len(), 2);
    let more = json!({ "inputResponses": { "ask1": { "n": 1 } }, "requestState": question["requestState"] });
    let again = call(&world, "ask_two", more).await.json()["result"].clone();
    assert_eq!(again["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["ask2"]);
    let more = json!({ "inputResponses": { "ask2": { "n": 2 } }, "requestState": again["requestState"] });
    assert_eq!(text(&call(&world, "ask_two", more).await), r#"{"n":1} {"n":2}"#);
}

#[tokio::test]
async fn a_state_serves_once_for_its_own_request_and_nothing_else() {
    let world = world().await;
    let question = asked(&world, "ask").await;
    let state = question["requestState"].as_str().unwrap().to_owned();
    let answers = json!({ "ask1": { "action": "accept" } });
    let with = |state: &str| json!({ "inputResponses": answers, "requestState": state });
    let mut other_arguments = with(&state);
    other_arguments["arguments"] = json!({ "x": 2 });
    for (name, more) in [
        ("ask", with(&format!("{state}x"))),
        ("ask", with(&state[..state.len() - 2])),
        ("ask", other_arguments),
        ("echo", with(&state)),
        ("ask", json!({ "inputResponses": null, "requestState": state })),
        ("ask", json!({ "inputResponses": { "ask1": 12345 }, "requestState": state })),
    ] {
        let reply = call(&world, name, more.clone()).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (200, &json!(-32602)), "{name} {more}");
    }
    assert_eq!(world.endpoint.parked(), 1, "bad attempts do not cost the call");
    assert_eq!(text(&call(&world, "ask", with(&state)).await), r#"reply {"action":"accept"}"#);
    assert_eq!(call(&world, "ask", with(&state)).await.json()["error"]["code"], -32602, "used already");
    assert_eq!(world.double.started.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_state_that_another_program_made_reaches_the_handler() {
    let world = world().await;
    let more = json!({ "requestState": "yard-0011223344556677.abc", "inputResponses": {} });
    assert_eq!(text(&call(&world, "echo", more).await), "echo");
    let params = world.double.requests.lock()[0].params.clone();
    assert_eq!(params.member("requestState").unwrap().as_str(), "\"yard-0011223344556677.abc\"");
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not() {
    let world = world().await;
    let reply = call_as(&world, "ask", json!({}), json!({ "sampling": {} })).await;
    assert_eq!(text(&reply), "error the client did not declare the capability `elicitation`");
}

#[tokio::test]
async fn two_hundred_clients_that_never_come_back_leave_nothing_behind() {
    let world = world_with(Options { ask_timeout: Duration::from_millis(300), ..Options::default() }).await;
    let tasks = world.scope.tasks();
    let calls = (0..200).map(|_| asked(&world, "ask"));
    futures_util::future::join_all(calls).await;
    until("all calls have ended", || world.endpoint.parked() == 0).await;
    assert_eq!(world.double.started.load(Ordering::SeqCst), 200);
    until("all tasks have ended", || world.scope.tasks() <= tasks).await;
    assert_eq!(
        world.double.dropped.load(Ordering::SeqCst),
        0,
        "each handler got an error and ended by itself"
    );
}

#[tokio::test]
async fn no_more_calls_are_parked_than_there_is_room_for() {
    let world = world_with(Options { parked: 1, ..Options::default() }).await;
    asked(&world, "ask").await;
    let reply = call(&world, "ask", json!({})).await.json();
    let data = &reply["error"]["data"];
    assert_eq!((&reply["error"]["code"], &data["kind"]), (&json!(-32603), &json!("limit")));
    assert_eq!(data["retry"], "if-idempotent", "the call was under way when it asked: {reply}");
    until("the call without room is dropped", || world.double.dropped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn progress_comes_under_the_token_of_the_request_that_is_open() {
    let world = world().await;
    let question = asked(&world, "ask_then_notify").await;
    let more = json!({
        "inputResponses": { "ask1": {} }, "requestState": question["requestState"], "_meta": { "progressToken": "new" },
    });
    let events = call(&world, "ask_then_notify", more).await.events();
    assert_eq!(events[0]["params"], json!({ "progressToken": "new", "progress": 7 }));
}

#[tokio::test]
async fn after_a_restart_the_client_learns_that_its_call_ended_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let keys = Arc::new(Keys::load(&folder.path().join("keys.json")).unwrap());
        world_with(Options { keys, ..Options::default() }).await
    };
    let state = asked(&start().await, "ask").await["requestState"].clone();
    let restarted = start().await;
    let more = json!({ "inputResponses": { "ask1": { "action": "accept" } }, "requestState": state });
    let refused = call(&restarted, "ask", more).await.json();
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("before the gateway was restarted"), "{refused}");
    assert_eq!(restarted.double.started.load(Ordering::SeqCst), 0, "the call is not made again");
}
